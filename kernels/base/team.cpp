#include "kernels/base/team.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <omp.h>

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/base/machine.h"

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

// A word that threads wait for another to change. They spin for as long as a sleep and a wake would
// take (regions follow each other by the thousand in a step), then sleep.
class Word {
 public:
  std::uint32_t get() const { return word_; }
  void set(std::uint32_t to) {
    word_ = to;
    wake();
  }
  // Of several that count down, the last wakes who waits.
  void count_down() {
    if (--word_ == 0) wake();
  }
  void wait_while(std::uint32_t old) {
    static const int spins = own_cores() > 1 ? 1000 : 0;
    for (int i = 0; i < spins; ++i) {
      if (word_ != old) return;
      pause();
    }
    ++sleepers_;
    word_.wait(old);
    --sleepers_;
  }

 private:
  void wake() {
    if (sleepers_ > 0) word_.notify_all();
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
  }
  alignas(64) std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

// Thread i of a region is workers[i - 1]. All wait for one word, so that one call of the kernel
// wakes them; what it says of the region they read in it, since those that a region does not need
// may look when the next is being set.
class Team {
 public:
  static constexpr int most = 1024;  // threads of a region
  std::mutex busy;

  ~Team() {
    body_ = nullptr;
    begin(static_cast<int>(workers_.size()) + 1);
    for (auto& w : workers_) w.thread.join();
  }
  void run(int threads, const Body& body) {
    grow(threads);
    body_ = &body;
    begin(threads);
    std::exception_ptr error;
    {
      OneThread one;
      try {
        body(0);
      } catch (...) {
        error = std::current_exception();
      }
    }
    while (const std::uint32_t left = left_.get()) left_.wait_while(left);
    for (int i = 1; i < threads; ++i)
      if (std::exception_ptr its = std::exchange(workers_[i - 1].error, nullptr); !error)
        error = std::move(its);
    if (error) std::rethrow_exception(error);
  }

 private:
  struct Worker {
    std::exception_ptr error;
    std::thread thread;
  };

  void grow(int threads) {
    while (static_cast<int>(workers_.size()) < threads - 1) {
      Worker& w = workers_.emplace_back();
      w.thread = std::thread([this, &w, index = workers_.size(), seen = region_.get()] {
        work(w, static_cast<std::uint32_t>(index), seen);
      });
    }
  }
  void begin(int threads) {
    left_.set(static_cast<std::uint32_t>(threads) - 1);
    constexpr auto step = static_cast<std::uint32_t>(most);
    region_.set((region_.get() / step + 1) * step + static_cast<std::uint32_t>(threads) - 1);
  }
  void work(Worker& me, std::uint32_t index, std::uint32_t seen) {
    at::get_num_threads();  // LibTorch's lazy initialisation, before the number is set
    OneThread one;
    at::NoGradGuard no_grad;
    for (;;) {
      region_.wait_while(seen);
      seen = region_.get();
      if (seen % static_cast<std::uint32_t>(most) < index) continue;
      if (!body_) return;
      try {
        (*body_)(static_cast<int>(index));
      } catch (...) {
        me.error = std::current_exception();
      }
      left_.count_down();
    }
  }

  Word region_, left_;
  const Body* body_ = nullptr;
  std::deque<Worker> workers_;
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
  if (threads <= 1 || threads > Team::most || inside) return run_in_turn(threads, body);
  Team& t = team();
  std::unique_lock lock(t.busy, std::try_to_lock);
  if (!lock) {
    const OneThread one;
    return run_in_turn(threads, body);
  }
  t.run(threads, body);
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
