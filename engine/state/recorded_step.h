// A training step that a device records once and repeats as a whole (run.cuda_graphs). What the
// host queues for one step is a launch for each kernel; a small network's device waits for these.
//
//   batch ──▶ [model] ──▶ loss ──▶ [step]       usually: each body queues its kernels
//     └─copy─▶ fixed inputs ─▶ recording ─copy─▶ what each body made, for these same firings
//
// The nodes of the region stay where they are and fire as always, so stamps, counts, credits and
// logs know nothing of it: the first one's firing repeats the whole step, those after it hand on
// what was made. Shapes that come for the first time run as usual: libraries choose and allocate.
//
// Invariants: a recording is repeated only where all that it depends on is as it was: the inputs'
// shapes, types and layouts, and what Node::recordable says (the learning rate); else it is made
// anew. Memory that a recording writes is read by copies alone that are queued after it on the
// same stream. At most one recording is kept, so that only one holds memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/node.h"
#include "engine/state/tensor_device.h"

namespace sluice {

// What became of the steps of one region, for the run's summary.
struct RecordedSteps {
  std::string updater;         // its node
  std::string why_not;         // "": they are recorded, once their shapes are known
  std::uint64_t recorded = 0;  // so many recordings were made
  std::uint64_t repeated = 0;  // so many steps were repetitions
};

// Wraps the nodes of the training region, where it can be recorded as one piece of work: the 1:1
// nodes of the step lane from the one that reads the network to the one that updates it. Only the
// step lane may read the counts before the run has ended. Null where nothing trains.
std::shared_ptr<const RecordedSteps> record_steps(const Plan& plan,
                                                  const std::shared_ptr<TensorDevice>& device,
                                                  std::vector<std::unique_ptr<Node>>& nodes);

}  // namespace sluice
