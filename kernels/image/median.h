// Each voxel becomes the median of the voxels about it; outside of the image its border goes on.
// MONAI's MedianFilter, with a gradient on LibTorch's tape: to the first voxel of the window that
// has the median.
//
// Invariant: results are the same bits for every number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// image [B, C, ...] with one to three axes, float32 or float64; one radius for all axes, or one
// each. A window is 2 r + 1 voxels wide.
at::Tensor median_filter(const at::Tensor& image, const std::vector<std::int64_t>& radius);

}  // namespace sluice
