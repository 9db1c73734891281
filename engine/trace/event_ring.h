// What happened when: an event for every body, in rings by thread, for a trace of the run.
//
//   thread --record--> its ring --drain--> trace_file.h
//
// Invariant: recording takes no lock and allocates nothing after a thread's first event; while no
// trace is taken it is one test of a flag. A full ring drops what is new and counts it: a trace
// never slows the run down, and says what it lacks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/stamp.h"

namespace sluice {

struct Event {
  enum class Kind : std::uint8_t {
    body,   // process(), from start to end
    flush,  // flush()
    pass,   // within a body: the work of another node of its run, `owner`
    link,   // an n:1 node or a shuffle took `from` for (epoch, index), at `start`
  };
  std::int64_t start = 0, end = 0;  // ns
  std::uint64_t index = 0, from_index = 0;
  std::uint32_t epoch = 0, from_epoch = 0;
  std::int32_t node = 0;  // plan index
  std::int32_t owner = 0;
  std::uint32_t child = 0;
  Kind kind = Kind::body;
};

inline Event event_of(const Stamp& stamp, int node, std::int64_t start, std::int64_t end) {
  Event e;
  e.start = start;
  e.end = end;
  e.node = node;
  e.epoch = stamp.epoch;
  e.index = stamp.index;
  e.child = stamp.depth ? stamp.path[stamp.depth - 1] : 0;
  return e;
}

class EventRings {
 public:
  explicit EventRings(std::size_t capacity = 1 << 14);
  ~EventRings();

  void start() { on_.store(true, std::memory_order_relaxed); }
  void stop() { on_.store(false, std::memory_order_relaxed); }
  bool on() const { return on_.load(std::memory_order_relaxed); }

  void record(const Event& event) noexcept;
  // Which sample a source emitted; takes a lock, once a sample.
  void name(int node, const Stamp& stamp, std::string sample);

  struct Named {
    int node;
    std::uint32_t epoch;
    std::uint64_t index;
    std::string sample;
  };
  struct Sink {
    virtual ~Sink() = default;
    virtual void thread(std::size_t ring, const std::string& name, int tid) = 0;
    virtual void event(std::size_t ring, const Event& event) = 0;
    virtual void named(const Named& named) = 0;
  };
  // Hands on everything recorded since the last call. One thread at a time.
  void drain(Sink& sink);
  std::uint64_t lost() const;

 private:
  struct Ring;
  Ring& mine();
  const std::size_t capacity_;
  const std::uint64_t id_;
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // what follows
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<Named> names_;
};

}  // namespace sluice
