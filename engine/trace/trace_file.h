// A run's trace as Perfetto reads it (ui.perfetto.dev): TrackEvent packets, a track for every
// thread, a slice for every body, flows that follow a sample from its source to its last node,
// counters for queues and memory.
//
// Invariant: the file only grows by whole packets, each slice's begin and end together, so it reads
// at any moment, also after a kill; it never exceeds its bound, and says what was left out.
//
// Field numbers: https://perfetto.dev/docs/reference/trace-packet-proto
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/trace/event_ring.h"
#include "engine/trace/trace.h"

namespace sluice {

// What a node's queue is called, before the node's path.
inline constexpr const char* trace_queue = "queue of ";

// Of a run in several processes each has a trace of its own. One behind the other they are the
// run's: every rank has ids of its own, and times by rank 0's clock.
struct TraceOrigin {
  int rank = -1;               // -1: the run is one process
  std::int64_t behind_ns = 0;  // rank 0's clock is ahead of this one's by so much
};

// Turns events into packets. Not thread-safe.
class TraceEncoder final : public EventRings::Sink {
 public:
  explicit TraceEncoder(const Plan& plan, const TraceOrigin& origin = {});
  void thread(std::size_t ring, const std::string& name, int tid) override;
  void event(std::size_t ring, const Event& event) override;
  void named(const EventRings::Named& named) override;
  // Queues by node (plan index) and resident bytes of the process at `now` (ns).
  void counters(std::int64_t now, const std::vector<Reading>& readings, std::uint64_t resident);
  void left_out(std::int64_t now, std::uint64_t events);
  std::string take();  // the packets since the last call

 private:
  std::uint64_t id(std::uint64_t track) const;
  void packet(std::int64_t time, const std::string& field, int number);
  std::uint64_t flow(int root, std::uint32_t epoch, std::uint64_t index) const;
  void slice(std::size_t ring, const Event& event);

  const Plan& plan_;
  const TraceOrigin origin_;
  std::vector<int> root_in_, root_out_;            // by node: who counts what enters and leaves it
  std::vector<std::vector<std::uint64_t>> links_;  // by ring: flows that the next body takes up
  std::unordered_map<std::uint64_t, std::string> names_;
  std::vector<std::uint64_t> queue_;  // last written
  std::string out_;
};

// Drains the rings into a file twenty times a second, on a thread of its own.
class TraceFile {
 public:
  // Throws IoError where the file cannot be made. `readings` is asked at every tick.
  TraceFile(std::filesystem::path path, const Plan& plan, EventRings& rings,
            std::function<std::vector<Reading>()> readings, const TraceOrigin& origin = {},
            std::uint64_t most_bytes = std::uint64_t{256} << 20);
  ~TraceFile();  // writes the rest

 private:
  void loop();
  void tick();
  void write(std::string_view text);
  void cut_back(int cause);
  const std::filesystem::path path_;
  EventRings& rings_;
  const std::function<std::vector<Reading>()> readings_;
  const std::uint64_t most_bytes_;
  TraceEncoder encoder_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  bool full_ = false;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace sluice
