#include "engine/trace.h"

#include <algorithm>
#include <bit>
#include <ostream>

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

struct Trace::Ring {
  std::vector<Event> events;
  std::uint64_t written = 0;
};

static std::uint64_t next_id() {
  static std::atomic<std::uint64_t> id{0};
  return ++id;
}

Trace::Trace(std::size_t ring_size) : ring_size_(ring_size), id_(next_id()) {}
Trace::~Trace() = default;

Trace::Ring& Trace::ring() {
  thread_local std::uint64_t mine = 0;  // ids are never used twice, so a stale ring is not taken
  thread_local Ring* ring = nullptr;
  if (mine != id_) {
    auto fresh = std::make_unique<Ring>();
    fresh->events.resize(ring_size_);
    std::lock_guard lock(mutex_);
    rings_.push_back(std::move(fresh));
    ring = rings_.back().get();
    mine = id_;
  }
  return *ring;
}

void Trace::record(const Event& event) {
  Ring& r = ring();
  r.events[r.written++ % ring_size_] = event;
}

void Trace::write_chrome(std::ostream& out, const std::vector<std::string>& names) const {
  std::lock_guard lock(mutex_);
  out << "{\"traceEvents\":[";
  bool first = true;
  for (std::size_t t = 0; t < rings_.size(); ++t) {
    const Ring& r = *rings_[t];
    const std::uint64_t n = std::min<std::uint64_t>(r.written, ring_size_);
    for (std::uint64_t i = r.written - n; i < r.written; ++i) {
      const Event& e = r.events[i % ring_size_];
      out << (first ? "\n" : ",\n") << "{\"ph\":\"X\",\"pid\":1,\"tid\":" << t << ",\"name\":\""
          << names[e.node] << "\",\"ts\":" << static_cast<double>(e.start - begin_) / 1e3
          << ",\"dur\":" << static_cast<double>(e.end - e.start) / 1e3
          << ",\"args\":{\"epoch\":" << e.epoch << ",\"index\":" << e.index
          << ",\"child\":" << e.child << "}}";
      first = false;
    }
  }
  out << "\n]}\n";
}

}  // namespace sluice
