// Takes a sample of the run ten times a second and keeps timeline.json and profile.json in the run
// folder, so that a run can be looked at while it runs and after it was killed.
//
// Invariant: it only reads counters, on a thread of the lowest priority; a file that cannot be
// written is said once and never ends the run.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/judge/timeline.h"
#include "engine/run/scheduler.h"
#include "engine/session/run_folder.h"

namespace sluice {

class Sampler {
 public:
  // `profile`: what was measured so far. All of them outlive it.
  Sampler(const Plan& plan, const Scheduler& scheduler, const Threads& threads, RunFolder& folder,
          std::function<Json()> profile);
  ~Sampler();  // writes the whole timeline

 private:
  void loop();
  void sample();
  void write();

  const Scheduler& scheduler_;
  RunFolder& folder_;
  const std::function<Json()> profile_;
  Timeline timeline_;
  bool complained_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace sluice
