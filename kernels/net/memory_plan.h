// What a training step keeps of its forward pass for the backward one, what it makes again from
// what is kept (Chen et al. 2016), and what waits in the host's memory (vDNN, Rhu et al. 2016).
// Pure data: it is made from the list of steps and the values' sizes alone, before a pass begins.
//
//   forward   0 ──▶ 1 ──▶ 2 ──▶ 3 ──▶ 4       kept: 0, 3; 1 and 2 are let go of
//   backward  4, 3, then 1 and 2 again from 0, then 2, 1
//
// Invariant: a plan changes no bit of a gradient. A step that runs again reads the same numbers,
// draws the same random ones (they are functions of the pass's key) and leaves running statistics
// alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/net/step.h"

namespace sluice {

struct MemoryPolicy {
  enum class Kind : std::uint8_t {
    keep,       // all that a backward pass reads
    light,      // norms and activations are made again, of values that are kept anyway
    recompute,  // the least memory
    offload,    // the least memory with nothing made again: values wait on the host
    automatic,  // the least that is made again within the budget
  } kind = Kind::keep;
  std::int64_t budget = 0;  // bytes of all frames of a step, of automatic
};

struct MemoryPlan {
  // A value that went to the host is brought back when this many steps stand before its reader.
  static constexpr std::size_t ahead = 2;

  std::vector<bool> again;  // by step: its output, and what it saves, are made again
  // By value: on the host from its last reader forward to its first reader backward. Empty: none.
  std::vector<bool> away;
  bool goes_away(int value) const { return !away.empty() && away[static_cast<std::size_t>(value)]; }
  // Bytes of one frame: values, their gradients, what steps save. The network's input counts, its
  // outputs, the loss, weights and work space do not.
  std::int64_t peak = 0;
  std::int64_t kept = 0;     // at the forward pass's end
  std::int64_t moved = 0;    // to the host, and as many back
  double forward_again = 0;  // what runs again, in forward passes
};

// A pass's frames: so many, at most `threads` of them at work at a time.
struct FrameCount {
  std::int64_t frames = 1, threads = 1;
  bool operator==(const FrameCount&) const = default;
  std::int64_t bytes(const MemoryPlan& plan) const {
    return plan.kept * frames + (plan.peak - plan.kept) * threads;
  }
};

// For values of these sizes. Throws Error(usage) where the least that can be had is above the
// budget.
MemoryPlan memory_plan(const Net& net, const Schedule& schedule,
                       const std::vector<Step::Size>& sizes, const MemoryPolicy& policy,
                       FrameCount count);

// By value: whether it outlives the forward pass, for a backward step or to make others again from.
std::vector<bool> retained_values(const Net& net, const Schedule& schedule,
                                  const std::vector<bool>& again);

// The most bytes of a pass that nothing is kept of: one window's prediction.
std::int64_t forward_peak(const Net& net, const Schedule& schedule,
                          const std::vector<Step::Size>& sizes);

// "1.92 GiB", for messages.
std::string bytes_text(std::int64_t bytes);

}  // namespace sluice
