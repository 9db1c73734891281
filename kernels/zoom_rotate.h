// Magnifying and turning volumes about their centre, as MONAI's Zoom and Rotate do.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/filling.h"
#include "kernels/resample.h"
#include "kernels/resizing.h"

namespace sluice {

// A transformed volume and where its voxels lie in the old one.
struct Placed {
  at::Tensor volume;
  Affine to_source;
};

// Resizes the first `axes` axes of [C, X, Y, Z] by factors; with keep_size then crops or fills to
// the old size. A DataError where an axis has no voxel left.
struct Zooming {
  Resizing mode = Resizing::area;
  Filling filling = Filling::edge;
  bool align_corners = false, keep_size = true;
};
Placed zoom(const at::Tensor& volume, std::int64_t axes, const Vec3& factors, const Zooming& how);

// Turns by angles in radians about x, y and z, or by one in the plane of two axes; without
// keep_size the result holds all of the old volume.
Placed rotate(const at::Tensor& volume, std::int64_t axes, const std::vector<double>& angles,
              const Sampling& how, bool keep_size);

}  // namespace sluice
