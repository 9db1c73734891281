// What the transforms share that read between voxels.
#pragma once

#include <algorithm>

#include "engine/graph/spec.h"
#include "kernels/image/resample.h"
#include "nodes/sampling_record.h"
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

template <class Params>
Spec& add_align_corners(Spec& s) {
  return s
      .param("align_corners", &Params::align_corners,
             "Reflection turns at the voxels' centres, not at their faces; one, or one a key.")
      .per("keys");
}

}  // namespace sluice
