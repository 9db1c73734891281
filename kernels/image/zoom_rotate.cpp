#include "kernels/image/zoom_rotate.h"

#include <cmath>
#include <string>

#include "engine/base/error.h"
#include "kernels/image/affine_params.h"

namespace sluice {
namespace {

// The box around the turned volume, as MONAI rounds it.
Shape3 turned_shape(const Affine& turn, const Shape3& shape, std::int64_t axes) {
  Shape3 out{1, 1, 1};
  for (int r = 0; r < axes; ++r) {
    double extent = 0;  // corners are at 0 and n: each axis adds its part
    for (int c = 0; c < axes; ++c)
      extent += std::abs(turn[4 * r + c]) * static_cast<double>(shape[c]);
    out[r] = static_cast<std::int64_t>(extent + 0.5);
  }
  return out;
}

}  // namespace

Shape3 zoomed_shape(const Shape3& shape, std::int64_t axes, const Vec3& factors) {
  Shape3 size = shape;
  for (int d = 0; d < axes; ++d) {
    size[d] = static_cast<std::int64_t>(std::floor(static_cast<double>(shape[d]) * factors[d]));
    if (size[d] < 1)
      throw DataError("zoomed by " + std::to_string(factors[d]) + ", axis " + std::to_string(d) +
                      " of " + std::to_string(shape[d]) + " voxels has none left");
  }
  return size;
}

Turned turned(const Shape3& shape, std::int64_t axes, const std::vector<double>& angles,
              bool keep_size) {
  AffineParams params;
  params.rotate = angles;
  const Affine turn = centred_affine(params, axes);
  const Shape3 size = keep_size ? shape : turned_shape(turn, shape, axes);
  return {about_centres(turn, shape, size), size};
}

}  // namespace sluice
