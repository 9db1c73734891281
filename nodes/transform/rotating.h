// What rotate and rand_rotate do to one field.
#pragma once

#include <string>
#include <vector>

#include "kernels/affine_params.h"
#include "kernels/resample.h"
#include "nodes/transform/volumes.h"

namespace sluice {

struct Rotating {
  std::vector<std::string> mode{"bilinear"};
  std::vector<std::string> padding_mode{"border"};
  std::vector<bool> align_corners{false};
  bool keep_size = true;
};

// The box around the turned volume, as MONAI rounds it.
inline Shape3 turned_shape(const Affine& turn, const Shape3& shape, std::int64_t axes) {
  Shape3 out{1, 1, 1};
  for (int r = 0; r < axes; ++r) {
    double extent = 0;  // corners are at 0 and n: each axis adds its part
    for (int c = 0; c < axes; ++c)
      extent += std::abs(turn[4 * r + c]) * static_cast<double>(shape[c]);
    out[r] = static_cast<std::int64_t>(extent + 0.5);
  }
  return out;
}

// `angles` in radians: about x, y and z, or one for an image of two axes.
inline void apply_rotation(Field& field, const at::Tensor& volume, std::int64_t axes,
                           const std::vector<double>& angles, const Rotating& how, std::size_t key,
                           const char* transform) {
  AffineParams params;
  params.rotate = angles;
  const Affine turn = centred_affine(params, axes);
  const Shape3 shape = shape_of(volume);
  const Shape3 size = how.keep_size ? shape : turned_shape(turn, shape, axes);
  const Affine m = about_centres(turn, shape, size);
  const Sampling sampling{parse_interpolation(per_key(how.mode, key)),
                          parse_padding(per_key(how.padding_mode, key)),
                          flag(how.align_corners, key)};
  // values: the angles.
  record(field, from_volume(resample(volume, m, size, sampling), axes),
         multiply(field.geometry().affine, m), transform, angles);
}

}  // namespace sluice
