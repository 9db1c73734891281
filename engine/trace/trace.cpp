#include "engine/trace/trace.h"

#include <algorithm>

namespace sluice {

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

void Counters::emitted(std::uint64_t size) {
  bytes.fetch_add(size, std::memory_order_relaxed);
  bytes_of.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t most = most_bytes.load(std::memory_order_relaxed);
  while (size > most && !most_bytes.compare_exchange_weak(most, size)) {
  }
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
