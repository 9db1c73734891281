// Passes over a list of steps that is complete, so that every use of a value is known.
//
// Invariant: what is computed stays the same but for rounding; a step moves down the list at most,
// never above what makes its inputs; nothing is fused whose value anything else reads.
#pragma once

#include <memory>
#include <vector>

#include "kernels/net/step.h"

namespace sluice {

using Steps = std::vector<std::unique_ptr<Step>>;

// conv + residual, norm + activation + residual become one step each; a bias that a norm takes away
// again is left out.
void fuse(Steps& steps, const std::vector<int>& outputs);

// The layout that most is gained with.
Layout chosen_layout(const Steps& steps);

}  // namespace sluice
