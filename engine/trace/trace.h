// Counters for each node: what it did, for how long, and what it waited for. event_ring.h records
// every body by itself.
//
// Invariant: counting takes no lock of its own and allocates nothing, so it is always on. Readers
// see counters as they stand.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/spans.h"
#include "engine/base/stamp.h"

namespace sluice {

// Durations in buckets of an eighth of their size: quantiles to 12 %, for any range.
class Histogram {
 public:
  // Returns how many it holds of about that length.
  std::uint32_t add(std::int64_t ns) {
    return buckets_[static_cast<std::size_t>(bucket(ns))].fetch_add(1, std::memory_order_relaxed) +
           1;
  }
  // The upper edge of the bucket that holds the q-quantile, ns; 0 where nothing was added.
  std::int64_t quantile(double q) const;

 private:
  static int bucket(std::int64_t ns) {
    const auto v = static_cast<std::uint64_t>(ns < 0 ? 0 : ns);
    if (v < 8) return static_cast<int>(v);
    const int high = std::bit_width(v) - 1;  // at least 3
    const int b = (high - 2) * 8 + static_cast<int>((v >> (high - 3)) & 7);
    return b < 399 ? b : 399;
  }
  std::array<std::atomic<std::uint32_t>, 400> buckets_{};
};

// One long firing of a node.
struct SlowFiring {
  std::int64_t ns = 0;
  Stamp stamp;
  std::string sample, file;  // of a batch: its members' names, its first member's file
};

// A node's longest firings. Invariant: a firing that is not among them costs one relaxed load.
class Slowest {
 public:
  static constexpr std::size_t keep = 10;
  bool admits(std::int64_t ns) const { return ns > least_.load(std::memory_order_relaxed); }
  void add(SlowFiring firing);
  std::vector<SlowFiring> sorted() const;  // longest first

 private:
  mutable std::mutex mutex_;
  std::vector<SlowFiring> heap_;  // the shortest of them in front
  std::atomic<std::int64_t> least_{-1};
};

// Written by the node's own firings (atomics) or under its lock (waiting times).
struct Counters {
  // A body that takes longer than this is worth two readings of its thread's processor clock
  // (0.4 us) and a look at what it emitted; of shorter ones every 64th is looked at.
  static constexpr std::int64_t long_ns = 500'000;

  std::atomic<std::uint64_t> passed{0}, skipped{0};
  std::atomic<std::uint64_t> spared{0};               // a source: items that a cache had
  std::atomic<std::uint64_t> bytes{0}, bytes_of{0};   // emitted by so many firings
  std::atomic<std::uint64_t> most_bytes{0};           // by one of them
  std::atomic<std::int64_t> cpu_ns{0}, cpu_of_ns{0};  // processor time, in so much time of bodies
  Spans helped;                                       // of other threads, on parts of its bodies
  Spans lent;      // passes of its bodies that did the work of other nodes of its run
  Spans borrowed;  // passes of their bodies that did its work
  std::atomic<std::int64_t> shared_ns{0};  // of the passes booked to it: those that did others' too
  std::atomic<std::uint64_t> with{0};      // whose, by their positions in the run
  std::atomic<std::int64_t> device_ns{0};  // of the device, on what its bodies queued
  std::atomic<std::uint32_t> left{0};      // bodies that left their work to another node
  std::atomic<bool> is_long{false};        // the last body took longer than long_ns
  Histogram durations;
  Slowest slowest;
  std::int64_t starved_ns = 0;           // nothing to do: waits for input
  std::int64_t blocked_ns = 0;           // has input: waits for a credit or its turn
  std::size_t queue = 0, queue_max = 0;  // packets waiting before it

  void enter(std::int64_t start) {
    if (bodies_.begin(start) == 0)
      idle_ns_.store(idle_ns_.load(std::memory_order_relaxed) + start -
                         idle_since_.load(std::memory_order_relaxed),
                     std::memory_order_relaxed);
  }
  void leave(std::int64_t end) {
    idle_since_.store(end, std::memory_order_relaxed);
    bodies_.end(end);
  }
  // The time of all its bodies together, up to now for those under way.
  std::int64_t body_ns(std::int64_t now) const { return bodies_.ns(now) + helped.ns(now); }
  // The time that its own work took, whoever's bodies did it. Over the nodes of a run the sum of
  // both is the same.
  std::int64_t busy_ns(std::int64_t now) const {
    return body_ns(now) - lent.ns(now) + borrowed.ns(now);
  }
  std::int64_t idle_ns(std::int64_t now) const {  // no body under way
    const std::int64_t idle = idle_ns_.load(std::memory_order_relaxed);
    return running() ? idle : idle + now - idle_since_.load(std::memory_order_relaxed);
  }
  int running() const { return bodies_.running(); }
  void emitted(std::uint64_t size);

 private:
  Spans bodies_;
  std::atomic<std::int64_t> idle_ns_{0}, idle_since_{now_ns()};
};

// One node's counters at one moment: what is under way is counted up to then.
struct Reading {
  std::int64_t at_ns = 0;
  std::uint64_t fired = 0, passed = 0, skipped = 0;
  std::uint64_t spared = 0;         // of fired: items of a source that a cache had
  std::uint64_t out = 0, lost = 0;  // packets sent; of these Skips that began here
  std::int64_t busy_ns = 0, starved_ns = 0, blocked_ns = 0;
  std::int64_t body_ns = 0;    // of its bodies, with what they did for others of its run
  std::int64_t shared_ns = 0;  // of busy_ns: passes that did others' work too ...
  std::uint64_t with = 0;      // ... whose, by their positions in the run, since the run began
  std::int64_t device_ns = 0;  // of the device, on what was queued there
  std::int64_t cpu_ns = 0, cpu_of_ns = 0;           // processor time, in so much time of bodies
  std::int64_t p50_ns = 0, p95_ns = 0, p99_ns = 0;  // since the run began
  std::uint64_t bytes = 0, bytes_of = 0;            // emitted by so many firings
  std::uint64_t most_bytes = 0;                     // by one of them, since the run began
  std::uint64_t queue = 0, queue_max = 0;           // packets waiting before it
  int running = 0;                                  // bodies under way
  int credits_out = 0, most_credits_out = 0;        // of the segment that begins here
  std::uint32_t epoch = 0;                          // the one that it works on
  std::uint64_t epoch_done = 0;                     // packets of it that have been dealt with
  std::int64_t epoch_size = -1;  // packets of the last epoch that ended; -1: none yet
  friend bool operator==(const Reading&, const Reading&) = default;
};

}  // namespace sluice
