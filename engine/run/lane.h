// Lanes that are no TBB arena: a FIFO of jobs and threads of its own. `io` has several threads
// (bodies there may block); `step` has one for its whole life, so that everything thread-local
// (grad mode, OpenMP pool, CUDA stream) stays with the training region. Where there is a device,
// `copy` and `step` have a second lane each, whose one thread waits for the device (scheduler.cpp).
//
// Invariant: jobs start in the order in which they were submitted; the destructor runs what is
// queued and joins.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

class Lane {
 public:
  using Job = std::function<void()>;

  // `on_start` runs once on every thread, before its first job. Throws where the system has no
  // thread left.
  Lane(std::string name, int threads, std::function<void()> on_start);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void submit(Job job) noexcept;
  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  void join();
  void loop(const std::string& name, const std::function<void()>& on_start);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

// Lets the calling thread's own work wait for everything else (nice 19; Linux keeps it by thread).
void make_thread_background();
void name_thread(const std::string& name);

}  // namespace sluice
