// Counters for each node: what it did, for how long, and what it waited for. event_ring.h records
// every body by itself.
//
// Invariant: counting takes no lock of its own and allocates nothing, so it is always on. Readers
// see counters as they stand.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/stamp.h"

namespace sluice {

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Durations in buckets of an eighth of their size: quantiles to 12 %, for any range.
class Histogram {
 public:
  void add(std::int64_t ns) { ++buckets_[bucket(ns)]; }
  // The upper edge of the bucket that holds the q-quantile, ns; 0 where nothing was added.
  std::int64_t quantile(double q) const;

 private:
  static int bucket(std::int64_t ns);
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
  std::atomic<std::uint64_t> fired{0}, passed{0}, skipped{0}, bytes{0};
  std::atomic<std::int64_t> busy_ns{0};  // of bodies that ended
  Histogram durations;
  Slowest slowest;
  void enter(std::int64_t start) { open_.fetch_add(packed(start), std::memory_order_relaxed); }
  void leave(std::int64_t start, std::int64_t end) {
    busy_ns.fetch_add(end - start, std::memory_order_relaxed);
    open_.fetch_sub(packed(start), std::memory_order_relaxed);
  }
  // ... and of those under way, so that a body of a minute shows before it ends.
  std::int64_t busy_until(std::int64_t now) const;
  int running() const { return static_cast<int>(open_.load(std::memory_order_relaxed) & 0xFFF); }
  std::int64_t starved_ns = 0;           // nothing to do: waits for input
  std::int64_t blocked_ns = 0;           // has input: waits for a credit or its turn
  std::size_t queue = 0, queue_max = 0;  // packets waiting in front of it

 private:
  // The bodies under way in one number: how many in the low 12 bits, above them the sum of their
  // starts in microseconds.
  std::uint64_t packed(std::int64_t start) const {
    return (static_cast<std::uint64_t>(start - begin_) / 1000) << 12 | 1;
  }
  std::atomic<std::uint64_t> open_{0};
  const std::int64_t begin_ = now_ns();
};

// One node's counters at one moment: what is under way is counted up to then.
struct Reading {
  std::int64_t at_ns = 0;
  std::uint64_t fired = 0, passed = 0, skipped = 0;
  std::int64_t busy_ns = 0, starved_ns = 0, blocked_ns = 0;
  std::int64_t p50_ns = 0, p99_ns = 0;        // since the run began
  std::uint64_t queue = 0, queue_max = 0;     // packets waiting in front of it
  int running = 0;                            // bodies under way
  int credits_out = 0, most_credits_out = 0;  // of the segment that begins here
  std::uint32_t epoch = 0;                    // the one that it works on
  std::uint64_t epoch_done = 0;               // packets of it that have been dealt with
  std::int64_t epoch_size = -1;               // packets of the last epoch that ended; -1: none yet
  friend bool operator==(const Reading&, const Reading&) = default;
};

}  // namespace sluice
