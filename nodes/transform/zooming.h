// What zoom and rand_zoom do to one field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/filling.h"
#include "kernels/resizing.h"
#include "nodes/transform/volumes.h"

namespace sluice {

struct Zooming {
  std::vector<std::string> mode{"area"};
  std::vector<std::string> padding_mode{"edge"};
  std::vector<bool> align_corners{false};
  bool keep_size = true;
};

inline void apply_zoom(Field& field, const at::Tensor& volume, std::int64_t axes,
                       const Vec3& factors, const Zooming& how, std::size_t key,
                       const char* transform) {
  const Shape3 shape = shape_of(volume);
  Shape3 size = shape;
  for (int d = 0; d < axes; ++d) {
    size[d] = static_cast<std::int64_t>(std::floor(static_cast<double>(shape[d]) * factors[d]));
    if (size[d] < 1)
      throw DataError("zoomed by " + std::to_string(factors[d]) + ", axis " + std::to_string(d) +
                      " of " + std::to_string(shape[d]) + " voxels has none left");
  }
  const bool align = flag(how.align_corners, key);
  at::Tensor zoomed = resize(volume, size, parse_resizing(per_key(how.mode, key)), align);
  Affine affine = multiply(field.geometry().affine, resize_affine(shape, size, align));
  if (how.keep_size && size != shape) {
    const Box box = centre_box(size, shape);
    zoomed = crop_pad(zoomed, box, parse_filling(per_key(how.padding_mode, key)), 0);
    affine = multiply(affine, box_affine(box));
  }
  // values: the factors.
  record(field, from_volume(zoomed, axes), affine, transform,
         {factors.begin(), factors.begin() + axes});
}

}  // namespace sluice
