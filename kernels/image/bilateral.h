// Bilateral filters in full: every voxel of a window counts by its distance and by how far its
// colour is. MONAI's BilateralFilter (without the lattice), TrainableBilateralFilter and
// TrainableJointBilateralFilter, with the true derivative of the sum over the window on LibTorch's
// tape: to the image, the guide and the sigmas.
//
//   image [B, C, ...], guide [B, G, ...]  ──▶  [B, C, ...]      one to three spatial axes
//
// The window is ceil(5 sigma) voxels wide on each axis, and one more where that is even; it is held
// in the gradients. Colours' distance is summed over the guide's channels.
//
// Invariant: results are the same bits for every number of threads and in every run.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

// A neighbour outside of the image is the nearest voxel, or does not count. In the latter case
// windows are at least five voxels wide.
enum class Neighbours : std::uint8_t { clamped, inside };

// Sigmas are tensors, so that they may be on the tape: in voxels, one or one an axis, and one in
// the guide's units. All are positive. image and guide are float32, or float64, alike.
at::Tensor bilateral(const at::Tensor& image, const at::Tensor& guide,
                     const at::Tensor& spatial_sigma, const at::Tensor& color_sigma,
                     Neighbours neighbours);

}  // namespace sluice
