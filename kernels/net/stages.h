// A network in parts: ranges of its list of steps, done one after the other, each on a device of
// its own where there are several (pass.h).
//
//   list       0 1 2 3 | 4 5 6 | 7 8 9      cut in front of 4 and 7
//   values         └───▶└──────▶            a skip crosses as any other value does
//
// Invariant: where the list is cut changes no bit. A stage reads the same numbers, and a value's
// gradient is added up from its last reader to its first, also where these are in several stages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/net/net.h"

namespace sluice {

// A part of a schedule, which is one itself: its steps, and what is read and kept among these.
struct NetStage {
  Schedule schedule;
  std::vector<int> in;   // values that it reads and does not make, the network's inputs too
  std::vector<int> out;  // values that it makes for later stages
};

struct Stages {
  std::vector<NetStage> all;
  std::vector<int> of_step;          // by step: its stage, also where the schedule leaves it out
  std::vector<int> maker;            // by value: its stage; -1: an input, or not computed
  std::vector<std::vector<int>> at;  // by value: the stages that make or read it, in order
  int size() const { return static_cast<int>(all.size()); }
  // The stage before this one, and after it, that makes or reads the value; -1: none.
  int before(int value, int stage) const;
  int after(int value, int stage) const;
  bool is_last(int value, int stage) const { return at[value].back() == stage; }
};

// ---- what a graph says --------------------------------------------------------------------------

struct NetDivision {
  int stages = 1;                   // so many of about equal cost for the sizes of the first pass;
  std::vector<std::string> layers;  // or what begins all stages but the first
  // Micro-batches that a training pass is cut into, where it has as many samples; 0: by its shape.
  // Batch norm takes the statistics of each, one after the other.
  int chunks = 0;
  // A stage keeps what comes into it, and is done again in the backward pass.
  bool recompute = false;
};

// Of passes from now on. Throws Error(usage) where the list has fewer steps than there are to be
// stages, and for a layer that no step is called, that begins the network, or that does not come
// after the one before it.
void divide(Net& net, const NetDivision& division);

// ---- what a report says -------------------------------------------------------------------------

// Of the last pass with a backward one.
struct StageFigures {
  int first = 0, last = 0;                     // steps
  std::int64_t kept = 0, peak = 0, comes = 0;  // bytes at most at a time; into it, a micro-batch
};
std::vector<StageFigures> stage_figures(const Net& net);  // empty: it is in one part
std::int64_t micro_batches(const Net& net);
// The share of the stages' time in which their devices waited for each other so far; nullopt: one
// device does them all, or they are GPUs, whose work the host does not time.
std::optional<double> measured_bubble(const Net& net);
// (S - 1) / (S - 1 + K) of S stages that take equally long and K micro-batches (Huang et al. 2019).
constexpr double expected_bubble(std::int64_t stages, std::int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(stages - 1 + micro_batches);
}
// The steps where stages begin for inputs of these sizes.
std::vector<int> stage_cuts(const Net& net, const std::vector<Step::Size>& of_inputs);
// The first layers of all stages but the first, of so many that took equally long in the passes so
// far; empty where nothing was measured or no names say it.
std::vector<std::string> measured_balance(const Net& net, int stages);

// ---- cutting ------------------------------------------------------------------------------------

// The schedule cut in front of these steps.
Stages stages_of(const Net& net, const Schedule& schedule, const std::vector<int>& cuts);

// Cuts into `stages` of which the dearest costs least; of equal ones those over which the fewest
// bytes go. costs[n] of step n; bytes by value.
std::vector<int> balanced_cuts(const Net& net, int stages, const std::vector<double>& costs,
                               const std::vector<std::int64_t>& bytes);

// ---- of passes and memory plans -----------------------------------------------------------------

// About the multiply-adds of a forward step: one that moves a number works about as long as on 80
// products.
double step_cost(const Step& step, const std::vector<Step::Size>& sizes);
std::vector<std::int64_t> bytes_of(const Net& net, const std::vector<Step::Size>& sizes);
// memory_plan.cpp: of one stage alone, on a device of its own; and of a pass that keeps nothing.
MemoryPlan stage_memory(const Net& net, const NetStage& stage, const std::vector<Step::Size>& sizes,
                        const std::vector<bool>& again);
MemoryPlan everything_again(const Net& net, const Schedule& schedule,
                            const std::vector<Step::Size>& sizes);

// What a network's passes know of its stages.
struct Parts {
  NetDivision division;
  std::optional<std::vector<int>> cuts;             // made once, so that weights need not move
  std::vector<std::shared_ptr<const Stages>> made;  // by number of outputs, less one
  std::atomic<std::int64_t> busy = 0, whole = 0;    // nanoseconds of all lanes together
};

}  // namespace sluice
