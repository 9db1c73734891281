// What the transforms by a drawn smooth field share.
#pragma once

#include "engine/run/registry.h"
#include "kernels/image/smooth_field.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

struct SmoothFieldParams : RandIntensityParams {
  std::vector<std::int64_t> rand_size;
  std::optional<std::vector<std::int64_t>> spatial_size;
  std::int64_t pad = 0;
  std::string mode = "area";
  bool align_corners = false;
};

// `mode_name`: the parameter's name; `rim`: what the rim of the field is.
template <class P>
Spec& add_smooth_field_params(Spec& s, const char* mode_name, const char* rim) {
  return s.param("rand_size", &P::rand_size, "Numbers that are drawn along each axis.")
      .required()
      .length(2, 3)
      .at_least(1)
      .param("spatial_size", &P::spatial_size,
             "The images' size, if they are to be refused that have another; null: any.")
      .param("pad", &P::pad,
             std::string("A rim of so many numbers around them that are ") + rim + ".")
      .at_least(0)
      .param(mode_name, &P::mode, "How they are stretched to the image's size.")
      .choices(resizing_names)
      .param("align_corners", &P::align_corners, "Linear modes: the outer numbers' places stay.")
      .per_axis("@keys", "spatial_size");
}

struct SmoothFieldNode : Node {
 protected:
  // `channels` fields of numbers between low and high within a rim of `rim`, for an image of
  // `shape` and `axes`.
  static at::Tensor drawn_field(const SmoothFieldParams& p, Random& random, double low, double high,
                                double rim, std::int64_t channels, const Shape3& shape,
                                std::int64_t axes) {
    if (std::ssize(p.rand_size) != axes)
      throw DataError("rand_size has " + std::to_string(p.rand_size.size()) +
                      " numbers for an image of " + std::to_string(axes) + " spatial axes");
    if (p.spatial_size && fall_back(*p.spatial_size, shape, axes) != shape)
      throw DataError("an image of " + list_text(shape) + " where spatial_size is " +
                      list_text(*p.spatial_size));
    std::vector<std::int64_t> sizes{channels}, inner{channels};
    for (const std::int64_t n : p.rand_size) {
      inner.push_back(n);
      sizes.push_back(n + 2 * p.pad);
    }
    if (axes == 2) inner.push_back(1), sizes.push_back(1);
    at::Tensor coarse = at::full(sizes, rim, at::kFloat), numbers = at::empty(inner, at::kFloat);
    for (std::int64_t i = 0; i < numbers.numel(); ++i)
      numbers.mutable_data_ptr<float>()[i] = static_cast<float>(random.uniform(low, high));
    at::Tensor room = coarse;
    for (std::int64_t d = 0; d < axes; ++d) room = room.narrow(d + 1, p.pad, p.rand_size[d]);
    room.copy_(numbers);
    return smooth_field(coarse, shape, parse_resizing(p.mode), p.align_corners);
  }
};

// gamma: [low, high], or one number for [0.5, gamma].
inline std::pair<double, double> gamma_bounds(const std::vector<double>& gamma) {
  const double low = gamma.size() == 1 ? 0.5 : std::min(gamma[0], gamma[1]);
  const double high = gamma.size() == 1 ? gamma[0] : std::max(gamma[0], gamma[1]);
  if (low >= high) throw Error(Exit::usage, "gamma must be [low, high], or one number above 0.5");
  return {low, high};
}

}  // namespace sluice
