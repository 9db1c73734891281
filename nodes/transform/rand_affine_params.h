// What rand_affine and rand_elastic share: the ranges of a random affine about the centre.
#pragma once

#include "engine/run/registry.h"
#include "kernels/image/affine_params.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {

struct RandAffineParams : SamplingParams {
  std::optional<std::vector<std::int64_t>> spatial_size;
  double prob = 0.1;
  Json rotate_range, shear_range, translate_range, scale_range;
  RandAffineParams() { padding_mode = {"reflection"}; }

  AffineRanges ranges() const {
    return {parse_ranges(rotate_range, "rotate_range"), parse_ranges(shear_range, "shear_range"),
            parse_ranges(translate_range, "translate_range"),
            parse_ranges(scale_range, "scale_range")};
  }
  Shape3 size(const Shape3& shape, std::int64_t axes) const {
    return spatial_size ? fall_back(*spatial_size, shape, axes) : shape;
  }
};

// Of images of `least` to `most` axes.
inline Spec& add_rand_affine_params(Spec& s, int least, int most) {
  using Params = RandAffineParams;
  s.param("spatial_size", &Params::spatial_size,
          "Voxels of the result: one number, or one an axis; 0 or less, or null: the image's.")
      .param("prob", &Params::prob, "Probability of a transform.")
      .range(0, 1)
      .param("rotate_range", &Params::rotate_range,
             "Radians about each axis: r, [r, ...] (-r..r) or [[low, high], ...].")
      .param("shear_range", &Params::shear_range, "Shear factors, six in 3-D, the same forms.")
      .param("translate_range", &Params::translate_range, "Voxels an axis, the same forms.")
      .param("scale_range", &Params::scale_range,
             "Added to a scale of 1 an axis, the same forms; above 1 shrinks the picture.");
  return add_sampling_params<Params>(s)
      .random()
      .fuses(Fuses::resamples)
      .any_device()
      .takes("@keys", Form::image, least, most)
      .resizes("@keys", "spatial_size")
      .when("spatial_size");
}

}  // namespace sluice
