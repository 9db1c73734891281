// The largest patch that a training step has room for, by what its network does with "memory":
// activations and their gradients count, and the loss, labels, samples and weights do not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice {

struct LargestPatch {
  std::string network;
  std::int64_t axes = 3, budget = 0;  // bytes, of activations and their gradients
  // Extents of a cube or square of one sample; 0: none fits.
  std::int64_t kept = 0, light = 0, recomputed = 0;
  std::optional<std::int64_t> offloaded;  // where there is a device to move values from
};

// Of each network of `graph` that is trained on images of any size and whose steps are known:
// within its memory_budget, else within `bytes`.
std::vector<LargestPatch> largest_patches(const Graph& graph, std::int64_t bytes);

void print_patches(const std::vector<LargestPatch>& all);

}  // namespace sluice
