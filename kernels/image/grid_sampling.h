// Resampling by a grid of coordinates in voxels: MONAI's grid_pull, grid_push, grid_count and
// grid_grad, with gradients on LibTorch's tape.
//
//   image [B, C, in...], grid [B, out..., D]   pull ──▶ [B, C, out...]   grad ──▶ [B, C, out..., D]
//   image [B, C, out...], grid                 push ──▶ [B, C, shape...] (pull's adjoint)
//
// Invariant: results are the same bits for every number of threads and in every run; a voxel that
// is pushed to is added to in the order of the points.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/image/grid_voxel.h"

namespace sluice {

at::Tensor grid_pull(const at::Tensor& image, const at::Tensor& grid,
                     const kernels::GridRule& rule);
at::Tensor grid_push(const at::Tensor& image, const at::Tensor& grid, at::IntArrayRef shape,
                     const kernels::GridRule& rule);
at::Tensor grid_count(const at::Tensor& grid, at::IntArrayRef shape, const kernels::GridRule& rule);
at::Tensor grid_grad(const at::Tensor& image, const at::Tensor& grid,
                     const kernels::GridRule& rule);

// The coefficients with which pull interpolates the image exactly: bounds dct1, dct2 and dft.
at::Tensor spline_coefficients(const at::Tensor& image, const kernels::GridRule& rule);

}  // namespace sluice
