// What a training step takes on so many processes, worked out from what one process measured.
//
//   step = passes of the busiest rank's shards + update + wait for the slowest + header + sum
//          or, where that is longer, what loads and transforms its samples
//
//   sum  = exchange of partial sums, additions, gather: as group/ordered_sum.h makes it, in one
//          level and after the backward pass, so all of it is exposed
//
// A closed form: a pure function of its arguments. Not modelled: validation, other jobs on the
// machines, congestion between machines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/judge/figures.h"

namespace sluice {

// Where the processes would run. Bytes and seconds.
struct Cluster {
  int node = 1;           // ranks on a machine
  int cores = 1;          // of a machine
  double link = 12.5e9;   // bytes a second into and out of a machine
  double inside = 200e9;  // ... of each rank to others on its machine
  double latency = 5e-6;  // of a message
  double memory = 10e9;   // bytes a second that one core copies
};

// What one process measured.
struct StepCosts {
  double item_s = 0;         // passes of one item of the source: forward, loss, backward
  double spread = 0;         // of one pass: its standard deviation, as a share of its time
  double update_s = 0;       // a step
  double step_cores = 1;     // cores that passes keep busy
  double item_cpu_s = 0;     // of cores, to load and transform an item
  double items_a_s = 0;      // that the data threads of a rank can deliver
  double memory_mb = 0;      // of the process at most
  std::int64_t values = 0;   // that are trained
  std::int64_t moments = 0;  // that the optimizer keeps
  bool on_device = false;
  // From profile.json, whose nodes are the plan's; `threads`: those that a rank would have.
  static StepCosts of(const Plan& plan, const Json& profile, Threads threads);
};

// What is to be trained.
struct Training {
  std::int64_t items = 1;  // of the source, a batch
  std::int64_t shards = 1;
  std::int64_t epoch = 0;  // items; 0: unknown
  bool halves = false;     // run.transfer is bfloat16
};

struct Scaling {
  int ranks = 1;
  std::int64_t shards = 1, busiest = 1;  // of a step; of the rank that has most
  double step_s = 0, passes_s = 0, update_s = 0, wait_s = 0, header_s = 0, sum_s = 0;
  double data_s = 0;      // to deliver the busiest rank's items
  double cores_s = 0;     // of all work of a rank, on its share of the cores
  double au = 0;          // share of the step in which the training region works
  double efficiency = 0;  // the step of one rank, divided by ranks and this step
  double memory_mb = 0;   // of a rank
  double sent = 0;        // bytes, of the rank that sends most
  double steps = 0;       // an epoch
  double lost = 0;        // share of these that is lost to a last batch that is not full
  std::string limit;      // what takes most of the step beyond the passes' equal share

  static Scaling of(const Training& training, const StepCosts& costs, const Cluster& cluster,
                    int ranks);
  Json to_json() const;
};

}  // namespace sluice
