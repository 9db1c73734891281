// The largest patch that a training step has room for, with everything kept and with values made
// again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice {

struct LargestPatch {
  std::string network;
  std::int64_t axes = 3, budget = 0;      // bytes, of activations and their gradients
  std::int64_t kept = 0, recomputed = 0;  // extent of a cube or square of one sample; 0: none fits
};

// Of each network of `graph` that is trained and whose steps are known: within its memory_budget,
// else within `bytes`.
std::vector<LargestPatch> largest_patches(const Graph& graph, std::int64_t bytes);

void print_patches(const std::vector<LargestPatch>& all);

}  // namespace sluice
