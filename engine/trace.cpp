#include "engine/trace.h"

#include <algorithm>
#include <bit>

namespace sluice {

int Histogram::bucket(std::int64_t ns) {
  const auto v = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
  if (v < 8) return static_cast<int>(v);
  const int high = std::bit_width(v) - 1;  // at least 3
  const int b = (high - 2) * 8 + static_cast<int>((v >> (high - 3)) & 7);
  return std::min(b, 399);
}

std::int64_t Histogram::quantile(double q) const {
  std::uint64_t total = 0;
  for (const auto& b : buckets_) total += b;
  if (total == 0) return 0;
  std::uint64_t left = static_cast<std::uint64_t>(q * static_cast<double>(total - 1)) + 1;
  for (int b = 0; b < 400; ++b) {
    const std::uint64_t n = buckets_[b];
    if (n < left) {
      left -= n;
      continue;
    }
    if (b < 8) return b;
    const int high = b / 8 + 2;
    return (static_cast<std::int64_t>(8 + b % 8) + 1) << (high - 3);
  }
  return 0;
}

std::int64_t Counters::busy_until(std::int64_t now) const {
  const std::uint64_t open = open_.load(std::memory_order_relaxed);
  const auto bodies = static_cast<std::int64_t>(open & 0xFFF);
  const auto starts = static_cast<std::int64_t>(open >> 12) * 1000;
  return busy_ns.load(std::memory_order_relaxed) +
         std::max<std::int64_t>(0, bodies * (now - begin_) - starts);
}

static bool longer(const SlowFiring& a, const SlowFiring& b) { return a.ns > b.ns; }

void Slowest::add(SlowFiring firing) {
  std::lock_guard lock(mutex_);
  if (heap_.size() == keep) {
    if (firing.ns <= heap_.front().ns) return;  // another firing was quicker to be slow
    std::pop_heap(heap_.begin(), heap_.end(), longer);
    heap_.pop_back();
  }
  heap_.push_back(std::move(firing));
  std::push_heap(heap_.begin(), heap_.end(), longer);
  if (heap_.size() == keep) least_.store(heap_.front().ns, std::memory_order_relaxed);
}

std::vector<SlowFiring> Slowest::sorted() const {
  std::lock_guard lock(mutex_);
  std::vector<SlowFiring> all = heap_;
  std::sort(all.begin(), all.end(), longer);
  return all;
}

}  // namespace sluice
