// A run's part in its group: who it is, the wire, and the wishes to end and to pause.
//
// Invariant: a run whose steps are sharded ends, and pauses, behind a whole step, the same on every
// rank: the wish rides in the next step's header, and the updater cuts when all have seen it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/group/wire.h"
#include "engine/group/world.h"

namespace sluice {

// What the steps of a run took on this rank, apart from the passes through networks.
struct StepUse {
  std::atomic<std::uint64_t> steps{0}, bytes{0};    // sent to others, of gradients
  std::atomic<std::int64_t> values{0}, moments{0};  // of all that is trained
  // Nanoseconds that steps waited: until all were at the step's end; from then until the sum was
  // there; of the update. And of all sums on the wire, also those that no step waited for.
  std::atomic<std::int64_t> header_ns{0}, sum_ns{0}, update_ns{0}, wire_ns{0};
};

struct Ranks {
  World world;
  Wire* wire = nullptr;                              // null: the process is alone
  std::atomic<bool> wish{false}, pause_wish{false};  // this rank's
  // Of the run, once it is there: ends it behind this step, and has it saved there.
  std::function<void()> cut, pause;

  bool halves = false;            // run.transfer is bfloat16
  bool shard_optimizer = false;   // run.shard_optimizer
  std::size_t bucket_values = 0;  // run.bucket_mb as float32 values; 0: one bucket, at the end
  // Collective, before rank 0 saves: what other ranks alone have comes to it.
  std::vector<std::function<void()>> before_save;
  StepUse use;

  // The updater behind which a step is over: there the run may be cut. "": there is none.
  std::string last_updater;
  // How many steps of updaters are wanted, the same on every rank; 0: as many as there are.
  std::uint64_t steps_wanted = 0, steps_done = 0;

  bool has_all_steps() const { return steps_wanted > 0 && steps_done >= steps_wanted; }

  bool alone() const { return !wire; }
  // For the sums of one updater, of which two go on at a time where a stream has two: the wire
  // itself for the first that asks. Null: the process is alone.
  Collectives* channel(const std::string& name) {
    if (!wire) return nullptr;
    return std::exchange(taken_, true) ? &wire->channel(name) : wire;
  }

 private:
  bool taken_ = false;
};

}  // namespace sluice
