// The time that other threads spend on the body that runs on this one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice {

// The sum of the body that runs on this thread; null outside of bodies. A loop that several threads
// share reads it on the body's thread; each of its other threads then adds the time that it took.
inline thread_local std::atomic<std::int64_t>* helped_ns = nullptr;

class HelpTimer {
 public:
  explicit HelpTimer(std::atomic<std::int64_t>* sum) : sum_(sum) {}
  ~HelpTimer() {
    if (sum_) *sum_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count();
  }
  HelpTimer(const HelpTimer&) = delete;
  HelpTimer& operator=(const HelpTimer&) = delete;

 private:
  std::atomic<std::int64_t>* const sum_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace sluice
