// What a convolution is, apart from its weights. Lists have one entry a spatial axis.
//
// Invariant: weights are [out, in / groups, kernel...], of a transposed convolution
// [in, out / groups, kernel...], as PyTorch keeps them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace sluice {

using Size3 = std::array<std::int64_t, 3>;  // z, y, x; 2-D images have z = 1

struct ConvSpec {
  bool transposed = false;
  std::int64_t in = 1, out = 1;
  std::vector<std::int64_t> kernel, stride, padding, output_padding;
  std::int64_t groups = 1;
  std::vector<std::int64_t> dilation = {};  // empty: 1; of a transposed one nothing else
};

}  // namespace sluice
