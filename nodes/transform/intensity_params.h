// What the transforms share that change voxels' values.
#pragma once

#include "engine/graph/spec.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct IntensityParams {
  std::vector<std::string> keys{"image"};
  bool allow_missing_keys = false;
};

inline Spec& add_changed_keys(Spec& s) {
  return s.in("sample").out("sample").param(
      "keys", &IntensityParams::keys, "Fields to change, each [C, ...]; they become float32.");
}

// Of images of `least` spatial axes or more.
inline Spec& add_intensity_params(Spec& s, int least = 1) {
  return s.param("allow_missing_keys", &IntensityParams::allow_missing_keys, allow_missing_doc)
      .takes("@keys", Form::image, least)
      .changes("@keys")
      .dtype("float32");
}

struct RandIntensityParams : IntensityParams {
  double prob = 0.1;
};

inline Spec& add_rand_intensity_params(Spec& s, int least = 1) {
  s.param("prob", &RandIntensityParams::prob, "Probability that a sample is changed.").range(0, 1);
  return add_intensity_params(s, least).random();
}

}  // namespace sluice
