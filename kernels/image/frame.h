// Volumes in a frame, so that a loop over a window needs no case for the border.
//
// Invariant: a volume is [C, X, Y, Z]; axes that an image lacks come first, with one voxel and a
// frame of none.
#pragma once

#include <ATen/Functions.h>

#include <array>

namespace sluice {

using Margin = std::array<std::int64_t, 3>;

// [C, ...] -> [C, X, Y, Z]
inline at::Tensor with_three_axes(at::Tensor t) {
  while (t.dim() < 4) t = t.unsqueeze(1);
  return t;
}

// In a frame: of the nearest voxels, or zeros.
at::Tensor framed(at::Tensor t, const Margin& margin, bool clamped);

// The adjoint of a frame of nearest voxels.
at::Tensor folded(at::Tensor t, const Margin& margin);

}  // namespace sluice
