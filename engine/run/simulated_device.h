// A device that threads play: each stream is a thread that does what it was given in order, after
// naps of random length, so streams run into each other as those of a GPU may. For tests, and for
// whole runs without a GPU (SLUICE_DEVICE=simulated).
//
// Invariant: work of one stream is done in order; Stream::wait and Point::wait give all the order
// there is beyond that. What throws makes every later mark of its stream throw.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "engine/run/device.h"

namespace sluice {

struct SimulatedSettings {
  std::uint64_t seed = 0;
  std::uint64_t nap_us = 200;  // at most, before each piece of work
  // Bodies do their work at once and on the host instead of queueing it, so a stream that is told
  // to wait holds the host up.
  bool eager = false;
  // What a scheduler could forget, for tests of whether that is found.
  bool forget_stream_waits = false;                     // streams do not wait for each other
  std::function<bool(int stream)> forget_host_waits{};  // nor the host for marks of this one
};

class SimulatedStream final : public Stream {
 public:
  SimulatedStream(const SimulatedSettings& settings, int number);
  ~SimulatedStream() override;  // does what is queued
  void queue(std::function<void()> work);
  PointPtr mark() override;
  void wait(const Point& before) override;

 private:
  struct Milestone;
  void push(std::function<void()> work);
  void loop();

  const SimulatedSettings& settings_;
  const int number_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool closing_ = false;
  std::string error_;  // only its thread's
  std::thread thread_;
};

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(SimulatedSettings s) : settings(std::move(s)) {}
  std::unique_ptr<Stream> stream(bool urgent) override;
  const SimulatedSettings settings;

 private:
  int made_ = 0;
};

}  // namespace sluice
