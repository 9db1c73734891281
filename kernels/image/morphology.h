// Dilation and erosion of a mask by a ball, as nnU-Net's augmentation has them.
//
// The ball is skimage.morphology.ball's: floor(2 radius + 1) voxels an axis, at equal distances
// from -radius to radius. So the radius need not be whole, and a ball of an even number of voxels
// lies half a voxel off its centre.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

// mask: uint8 of 0 and 1, contiguous [X, Y, Z]. Outside there is nothing.
at::Tensor dilated(const at::Tensor& mask, double radius);
// What is left where everything that is not the mask grows; nothing grows in from outside.
at::Tensor eroded(const at::Tensor& mask, double radius);

// A mask that grew `iterations` times by its voxels' neighbours along the axes from `first_axis`
// on, as scipy.ndimage.binary_dilation: all within that many steps.
at::Tensor dilated_in_steps(const at::Tensor& mask, std::int64_t iterations,
                            std::int64_t first_axis);

}  // namespace sluice
