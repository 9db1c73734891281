#include "kernels/zoom_rotate.h"

#include <cmath>
#include <string>

#include "engine/error.h"
#include "kernels/affine_params.h"

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

Placed zoom(const at::Tensor& volume, std::int64_t axes, const Vec3& factors, const Zooming& how) {
  const Shape3 shape = shape_of(volume);
  Shape3 size = shape;
  for (int d = 0; d < axes; ++d) {
    size[d] = static_cast<std::int64_t>(std::floor(static_cast<double>(shape[d]) * factors[d]));
    if (size[d] < 1)
      throw DataError("zoomed by " + std::to_string(factors[d]) + ", axis " + std::to_string(d) +
                      " of " + std::to_string(shape[d]) + " voxels has none left");
  }
  Placed out{resize(volume, size, how.mode, how.align_corners),
             resize_affine(shape, size, how.align_corners)};
  if (!how.keep_size || size == shape) return out;
  const Box box = centre_box(size, shape);
  return {crop_pad(out.volume, box, how.filling, 0), multiply(out.to_source, box_affine(box))};
}

Placed rotate(const at::Tensor& volume, std::int64_t axes, const std::vector<double>& angles,
              const Sampling& how, bool keep_size) {
  AffineParams params;
  params.rotate = angles;
  const Affine turn = centred_affine(params, axes);
  const Shape3 shape = shape_of(volume);
  const Shape3 size = keep_size ? shape : turned_shape(turn, shape, axes);
  const Affine m = about_centres(turn, shape, size);
  return {resample(volume, m, size, how), m};
}

}  // namespace sluice
