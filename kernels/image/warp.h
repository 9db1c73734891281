// An image moved by a displacement field, with gradients on LibTorch's tape: what networks of
// registration are trained through.
//
//   image [N, C, ...], ddf [N, axes, ...]   warp ──▶ image[index + ddf], [N, C, ...]
//   velocities [N, axes, ...]            dvf2ddf ──▶ displacements [N, axes, ...]
//
// Displacements are in voxels, component a along axis a of the array. 1, 2 or 3 axes; ours are
// linear and on the host, LibTorch's grid sampler does the rest (a device; the nearest voxel).
// LibTorch's takes a grid from -1 to 1, which must be made and undone, and one thread a member.
//
// Invariant: the same bits for any number of threads; a voxel of the image's gradient is added to
// in the order of the output's voxels. A displacement that is not finite gives NaN.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/image/warp_voxel.h"

namespace sluice {

// Whether a field is one sample's, [axes, ...], and no batch: [3, 2, X, Y] are three of a picture.
inline bool is_single_field(const at::Tensor& t) {
  const std::int64_t axes = t.dim() - 1;
  return axes >= 1 && axes <= 3 && t.size(0) == axes && !(axes >= 2 && t.size(1) == axes - 1);
}

at::Tensor warp(const at::Tensor& image, const at::Tensor& ddf,
                kernels::Outside outside = kernels::Outside::zeros);

// MONAI's DVF2DDF: a velocity field integrated by `steps` squarings (Arsigny et al. 2006).
at::Tensor dvf2ddf(const at::Tensor& velocities, std::int64_t steps,
                   kernels::Outside outside = kernels::Outside::zeros);

// The same by LibTorch's grid sampler; `nearest` has no gradient for the displacements.
at::Tensor torch_warp(const at::Tensor& image, const at::Tensor& ddf, bool nearest,
                      kernels::Outside outside);

// Points [N, P, axes] of the displacements' own grid, in voxels: each and the displacement there,
// linear between voxels; outside, the border's. Gradients for the displacements alone.
at::Tensor warp_points(const at::Tensor& points, const at::Tensor& ddf);

// Target registration error: the mean distance [N] of points [N, P, axes] from the truth's, whose
// rows of -1 are none (0 without any); `spacing`: a voxel's extents, one number or one an axis.
at::Tensor target_registration_error(const at::Tensor& points, const at::Tensor& truth,
                                     at::ArrayRef<double> spacing);

}  // namespace sluice
