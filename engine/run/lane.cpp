#include "engine/run/lane.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>

#include "engine/base/system_call.h"

namespace sluice {

void make_thread_background() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
}

void name_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

Lane::Lane(std::string name, int threads, std::function<void()> on_start) {
  try {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, name, on_start] { loop(name, on_start); });
  } catch (const std::system_error& e) {
    join();
    throw MachineError(Exit::io, std::string("no further thread can be made: ") + e.what());
  }
}

Lane::~Lane() { join(); }

void Lane::join() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (auto& t : threads_) t.join();
}

void Lane::submit(Job job) noexcept {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Lane::loop(const std::string& name, const std::function<void()>& on_start) {
  name_thread("sluice-" + name);
  if (on_start) on_start();
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it captured goes now, not when the next job comes
    lock.lock();
  }
}

}  // namespace sluice
