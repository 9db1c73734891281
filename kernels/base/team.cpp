#include "kernels/base/team.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <omp.h>

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

// MKL's number of threads for this thread, which LibTorch sets beside OpenMP's; 0: as OpenMP says.
// LibTorch holds MKL where it was built with it.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);

namespace sluice {
namespace {

thread_local bool inside = false;

// LibTorch's kernels stay on this thread while a body runs.
struct OneThread {
  const int before = omp_get_max_threads();
  const int mkl_before = set_mkl(1);
  const bool was_inside = inside;
  OneThread() {
    omp_set_num_threads(1);
    inside = true;
  }
  ~OneThread() {
    omp_set_num_threads(before);
    set_mkl(mkl_before);
    inside = was_inside;
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static int set_mkl(int threads) {
    return MKL_Set_Num_Threads_Local ? MKL_Set_Num_Threads_Local(threads) : 0;
  }
};

using Body = std::function<void(int)>;

// A body that one thread leaves for another. A waiting thread spins for as long as a sleep and a
// wake would take (regions follow each other by the thousand in a step), then sleeps.
class Handover {
 public:
  const Body* body() const { return body_; }
  void set(const Body* body) {
    body_ = body;
    if (sleepers_ > 0) body_.notify_all();
  }
  void wait_while(const Body* old) {
    static const int spins = std::thread::hardware_concurrency() > 1 ? 1000 : 0;
    for (int i = 0; i < spins; ++i) {
      if (body_ != old) return;
      pause();
    }
    ++sleepers_;
    body_.wait(old);
    --sleepers_;
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
  }
  std::atomic<const Body*> body_{nullptr};
  std::atomic<int> sleepers_{0};
};

struct Worker {
  Handover handover;
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::thread thread;

  void start(int index) {
    thread = std::thread([this, index] {
      at::get_num_threads();  // LibTorch's lazy initialisation, before the number is set
      OneThread one;
      at::NoGradGuard no_grad;
      for (;;) {
        handover.wait_while(nullptr);
        if (stop) return;
        try {
          (*handover.body())(index);
        } catch (...) {
          error = std::current_exception();
        }
        handover.set(nullptr);
      }
    });
  }
  void finish(const Body& body) { handover.wait_while(&body); }
};

struct Team {
  std::mutex busy;
  std::deque<Worker> workers;  // thread i of a region is workers[i - 1]

  void grow(int threads) {
    while (static_cast<int>(workers.size()) < threads - 1) {
      workers.emplace_back();
      workers.back().start(static_cast<int>(workers.size()));
    }
  }
  ~Team() {
    static const Body nothing = [](int) {};
    for (auto& w : workers) {
      w.stop = true;
      w.handover.set(&nothing);
      w.thread.join();
    }
  }
};

Team& team() {
  static Team t;
  return t;
}

void run_in_turn(int threads, const Body& body) {
  for (int i = 0; i < threads; ++i) body(i);
}

}  // namespace

int team_size() { return inside ? 1 : at::get_num_threads(); }

void team_run(int threads, const Body& body) {
  if (threads <= 1 || inside) return run_in_turn(threads, body);
  Team& t = team();
  std::unique_lock lock(t.busy, std::try_to_lock);
  if (!lock) {
    const OneThread one;
    return run_in_turn(threads, body);
  }
  t.grow(threads);
  for (int i = 1; i < threads; ++i) t.workers[i - 1].handover.set(&body);
  std::exception_ptr error;
  {
    OneThread one;
    try {
      body(0);
    } catch (...) {
      error = std::current_exception();
    }
  }
  for (int i = 1; i < threads; ++i) {
    Worker& w = t.workers[i - 1];
    w.finish(body);
    if (!error) error = w.error;
    w.error = nullptr;
  }
  if (error) std::rethrow_exception(error);
}

void one_thread_each(int threads, const Body& body) {
  if (threads > 1 && !inside) return team_run(threads, body);
  const OneThread one;
  run_in_turn(threads, body);
}

void team_for(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t threads = std::min<std::int64_t>(team_size(), n);
  if (threads <= 1) {
    if (n > 0) body(0, n);
    return;
  }
  team_run(static_cast<int>(threads), [&](int i) { body(n * i / threads, n * (i + 1) / threads); });
}

}  // namespace sluice
