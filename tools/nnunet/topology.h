// How often a U-Net pools each axis of a patch, and with which kernels: nnU-Net's rule.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::nnunet {

using Ints = std::vector<std::int64_t>;
using Reals = std::vector<double>;

struct Topology {
  std::vector<Ints> strides, kernels;  // a stage each; the first stride is 1
  Ints patch;                          // the extents, each up to a multiple of its divisor
  Ints divisor;                        // 2^pools of each axis
};

// `spacing` in mm; `patch` may end in .5, which vanishes. An axis is pooled while it has 8 voxels,
// together with those whose spacing is below twice the smallest; its kernel is 1 until then.
// Source: Isensee et al., nnU-Net, Nature Methods 18 (2021), supplement 4; version 2.8.1's rules.
Topology topology_of(const Reals& spacing, const Reals& patch);

}  // namespace sluice::nnunet
