// What a run's data takes of a GPU's memory, as far as it is certain without data: samples and
// batches in flight after `to_device`, as many as their segments have credits, and the budgets of
// caches that keep samples there. What they leave of run.device_budget is for caches without a
// budget of their own; what networks need is not counted here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace sluice {

struct DeviceNeed {
  struct Flight {
    std::string gate;  // the node whose credits these packets hold
    std::uint64_t packets = 0, each = 0;
  };
  std::vector<Flight> in_flight;  // those whose size is known, at least
  bool exact = true;              // there are no others
  std::uint64_t budgets = 0;      // of the caches that have one
  std::uint64_t unbounded = 0;    // how many caches have none

  std::uint64_t flying() const;
  std::uint64_t bytes() const { return flying() + budgets; }
  // What each of the unbounded caches may take of `budget`.
  std::uint64_t share(std::uint64_t budget) const;
  // "9 x 1.2 MB from gpu and 2 x 9.4 MB from batch: at least 29.6 MB"; "": nothing is known
  std::string text() const;
};

DeviceNeed device_need(const Plan& plan);

// Whether nodes of this type move samples to a device.
bool moves_samples(const Spec& spec);
// How many samples may be on the device at once downstream of `gate`, which moves them there or is
// a cache there: what the mover's parameter says where the file gives it, else that parameter's
// default and those that nodes downstream, and the cache, hold back.
int moved_at_once(const Plan& plan, const PlanNode& gate);

}  // namespace sluice
