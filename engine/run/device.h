// A device as the scheduler sees it: something that does later, and in its own time, what lanes
// queue on it. No CUDA and no LibTorch here; a GPU is behind tensor_device.h, and a device that
// threads play is simulated_device.h.
//
//   step lane   |fwd 1|bwd 1|fwd 2|bwd 2|                        the host queues,
//   its stream      |   fwd 1   |   bwd 1   |   fwd 2   |...      the device is behind,
//   marks           ^mark        ^done: inputs, credits go home   and a mark says how far
//
// Invariant: what one stream was given is done in the order in which it was given; between streams
// there is no order but that of wait().
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sluice {

class Stream;

// A point in a stream: everything queued before it.
class Point {
 public:
  explicit Point(const Stream& stream) : of(&stream) {}
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;
  virtual ~Point() = default;
  // Holds the host up until it is done; throws where that failed. Returns when that was
  // (now_ns()): as the device says, or else when the host saw it.
  virtual std::int64_t wait() const = 0;
  const Stream* const of;
};
using PointPtr = std::shared_ptr<const Point>;

// The queue of one lane's thread, for that thread's whole life; only it calls these.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void enter() {}       // called once, on the thread that owns it
  virtual PointPtr mark() = 0;  // after all that is queued now
  // What is queued from now on waits; the host goes on. Nothing to do for a mark of its own.
  virtual void wait(const Point& before) = 0;

  // What a body's work uses lives until the mark after the body is done.
  void keep(std::shared_ptr<const void> what) { kept_.push_back(std::move(what)); }
  std::vector<std::shared_ptr<const void>> take_kept() { return std::exchange(kept_, {}); }

 private:
  std::vector<std::shared_ptr<const void>> kept_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::unique_ptr<Stream> stream(bool urgent) = 0;  // urgent: before the others' work
};

}  // namespace sluice
