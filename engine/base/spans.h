// The clock of a run, and sums of intervals that several threads begin and end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice {

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// How long all intervals were together. An interval under way counts up to now, so that one of a
// minute shows before it ends.
class Spans {
 public:
  // Returns how many were under way.
  int begin(std::int64_t start) {
    return running(open_.fetch_add(1 - packed(start), std::memory_order_acq_rel));
  }
  void end(std::int64_t end) { open_.fetch_add(packed(end) - 1, std::memory_order_acq_rel); }
  std::int64_t ns(std::int64_t now) const {
    const std::int64_t open = open_.load(std::memory_order_relaxed);
    return ((open >> 12) + running(open) * ((now - zero_) >> 4)) << 4;
  }
  int running() const { return running(open_.load(std::memory_order_relaxed)); }

 private:
  // In one number: how many are under way in the low 12 bits; above them, in 16 ns (417 days), the
  // ends of those that ended minus the starts of all. All sums count from one moment, so that what
  // is added to one and taken from another is the same to the bit.
  static int running(std::int64_t open) { return static_cast<int>(open & 0xFFF); }
  static std::int64_t packed(std::int64_t at) { return ((at - zero_) >> 4) << 12; }
  static inline const std::int64_t zero_ = now_ns();
  std::atomic<std::int64_t> open_{0};
};

}  // namespace sluice
