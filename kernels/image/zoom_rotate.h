// Magnifying and turning volumes about their centre, as MONAI's Zoom and Rotate do: which voxels of
// the old volume the new ones are.
#pragma once

#include <vector>

#include "kernels/image/affine.h"
#include "kernels/image/filling.h"
#include "kernels/image/resizing.h"

namespace sluice {

// The first `axes` axes, resized by factors. A DataError where one has no voxel left.
Shape3 zoomed_shape(const Shape3& shape, std::int64_t axes, const Vec3& factors);

// By angles in radians about x, y and z, or by one in the plane of two axes; without keep_size the
// result holds all of the old volume.
struct Turned {
  Affine to_source;
  Shape3 shape;
};
Turned turned(const Shape3& shape, std::int64_t axes, const std::vector<double>& angles,
              bool keep_size);

}  // namespace sluice
