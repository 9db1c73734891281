// What limits a run's throughput, what would lift it, and what limits next. The one place where
// that is judged: the live block, `profile`, the measured picture and the report all ask here.
//
// A run is as quick as its most used resource: a lane's threads, the one thread of the training
// region, or a node that works on few packets at a time. At the measured rate R a resource that is
// busy for a share b of its time could give R/b. Where the training region and the data side are
// both nearly full (they share the machine's cores), the region's gate tells: it limits unless it
// waits for input. Where no thread is short but nearly every packet that a segment's credits let in
// is inside a body, and the next segment waits for input, the credits limit.
//
// Invariant: a pure function of the plan and the figures.
#pragma once

#include <string>
#include <vector>

#include "engine/judge/figures.h"

namespace sluice {

// A resource that several nodes may use; `node` uses most of it.
struct Limit {
  int node = -1;
  LaneKind lane = LaneKind::compute;
  bool lone = false;  // the node itself: it has fewer slots than its lane
  int slots = 1;
  double busy = 0;  // share of the slots' time
  double most = 0;  // ... that `node` takes
  double rate = 0;  // samples a second that it could give
};

struct Verdict {
  int node = -1;              // the bottleneck; -1: nothing limits (yet)
  double rate = 0;            // samples a second, as measured
  std::vector<Limit> limits;  // the tightest first
  std::string text;           // a sentence: "`load` limits: 2 of 2 io threads busy 97 %; ..."
  std::string advice;         // the same for a narrow row: "io threads 2 → 4 would give 79/s"
  std::string change;         // what would lift it: "io_threads=4", "ahead.size=16", "free:step"
};

Verdict judge(const Plan& plan, const Figures& figures);

}  // namespace sluice
