// What the transforms share that read between voxels.
#pragma once

#include <algorithm>

#include "engine/graph/spec.h"
#include "kernels/image/resample.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct SamplingParams {
  std::vector<std::string> keys{"image", "label"}, mode{"bilinear", "nearest"},
      padding_mode{"border"};
  bool allow_missing_keys = false;

  Sampling sampling(std::size_t key, bool align_corners = false) const {
    return {parse_interpolation(per_key(mode, key)), parse_padding(per_key(padding_mode, key)),
            align_corners};
  }
};

// What a transform that samples between voxels records (turning_back.h): its values, then
// interpolation and padding as their enums' numbers; with align_corners -1 - padding.
inline std::vector<double> with_sampling(std::vector<double> values, const Sampling& how) {
  const auto padding = static_cast<double>(how.padding);
  values.insert(values.end(), {double(how.mode), how.align_corners ? -1 - padding : padding});
  return values;
}
inline void read_sampling(const std::vector<double>& values, Sampling& how) {
  const double padding = values.back();
  how.align_corners = padding < 0;
  how.padding = static_cast<Padding>(how.align_corners ? -1 - padding : padding);
}

// Of Params, whose defaults may be their own.
template <class Params>
Spec& add_sampling_params(Spec& s) {
  using Texts = std::vector<std::string> Params::*;
  return s
      .param("mode", Texts{&Params::mode},
             "Interpolation, \"nearest\" for labels; one, or one a key.")
      .choices({"bilinear", "nearest"})
      .per("keys")
      .param("padding_mode", Texts{&Params::padding_mode}, "Outside the image; one, or one a key.")
      .choices({"zeros", "border", "reflection"})
      .per("keys")
      .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc);
}

// PyTorch's grid for align_corners, as MONAI asks for it: its point on an axis of one voxel is half
// a voxel from that voxel's centre, and in a source of one voxel every point is that voxel.
inline Affine on_aligned_grid(Affine to_source, const Shape3& from, const Shape3& to) {
  for (std::size_t d = 0; d < 3; ++d)
    for (std::size_t row = 0; row < 3 && to[d] == 1; ++row)
      to_source[4 * row + 3] += 0.5 * to_source[4 * row + d];
  for (std::size_t d = 0; d < 3; ++d)
    if (from[d] == 1) std::fill_n(to_source.begin() + static_cast<long>(4 * d), 4, 0.0);
  return to_source;
}

template <class Params>
Spec& add_align_corners(Spec& s) {
  return s
      .param("align_corners", &Params::align_corners,
             "Reflection turns at the voxels' centres, not at their faces; one, or one a key.")
      .per("keys");
}

}  // namespace sluice
