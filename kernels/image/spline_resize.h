// Resizing images as nnU-Net resamples: scikit-image's resize() by cubic B-splines, also slice by
// slice. Labels: label_votes.h.
//
//   place i of n on an axis of m voxels reads  (i + 0.5) m / n - 0.5 ; outside, the outermost voxel
//
// Invariant: one thread; memory beside input and result is one volume with an axis resized.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/image/affine.h"

namespace sluice {

// The axis whose slices nnU-Net resamples one by one, and across which the nearest slice counts:
// that of the largest spacing where it is over 3 times the smallest, of the old voxels, else of the
// new ones; of the first `axes`. None where two axes have the largest.
std::optional<int> slice_axis(const Vec3& old_spacing, const Vec3& new_spacing, int axes = 3);

// volume [C, X, Y, Z] of any type -> float32 [C, shape...], clipped to the range that a channel (a
// slice of it, with `slices`) had: scipy.ndimage.zoom(order=3, mode="nearest", grid_mode=True). A
// shape that stays gives the same values.
at::Tensor spline_resize(const at::Tensor& volume, const Shape3& shape,
                         std::optional<int> slices = {});

}  // namespace sluice
