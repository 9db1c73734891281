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

namespace sluice {
namespace {

thread_local bool inside = false;

// LibTorch's kernels stay on this thread while a body runs.
struct OneThread {
  int before = omp_get_max_threads();
  OneThread() {
    omp_set_num_threads(1);
    inside = true;
  }
  ~OneThread() {
    omp_set_num_threads(before);
    inside = false;
  }
};

struct Worker {
  std::atomic<const std::function<void(int)>*> body{nullptr};
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::thread thread;

  void start(int index) {
    thread = std::thread([this, index] {
      at::get_num_threads();  // LibTorch's lazy initialisation, before the number is set
      OneThread one;
      at::NoGradGuard no_grad;
      for (;;) {
        body.wait(nullptr);
        if (stop) return;
        try {
          (*body.load())(index);
        } catch (...) {
          error = std::current_exception();
        }
        body = nullptr;
        body.notify_all();
      }
    });
  }
  void finish() {
    for (const auto* b = body.load(); b; b = body.load()) body.wait(b);
  }
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
    static const std::function<void(int)> nothing = [](int) {};
    for (auto& w : workers) {
      w.stop = true;
      w.body = &nothing;
      w.body.notify_all();
      w.thread.join();
    }
  }
};

Team& team() {
  static Team t;
  return t;
}

void run_in_turn(int threads, const std::function<void(int)>& body) {
  for (int i = 0; i < threads; ++i) body(i);
}

}  // namespace

int team_size() { return inside ? 1 : at::get_num_threads(); }

void team_run(int threads, const std::function<void(int)>& body) {
  if (threads <= 1 || inside) return run_in_turn(threads, body);
  Team& t = team();
  std::unique_lock lock(t.busy, std::try_to_lock);
  if (!lock) return run_in_turn(threads, body);
  t.grow(threads);
  for (int i = 1; i < threads; ++i) {
    Worker& w = t.workers[i - 1];
    w.body = &body;
    w.body.notify_one();
  }
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
    w.finish();
    if (!error) error = w.error;
    w.error = nullptr;
  }
  if (error) std::rethrow_exception(error);
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
