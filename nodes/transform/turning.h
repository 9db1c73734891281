// What rotate and rand_rotate share.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {

struct TurnParams : SamplingParams {
  bool keep_size = true;
  std::vector<bool> align_corners{false};
};

inline Spec& add_turn_params(Spec& s) {
  s.param("keep_size", &TurnParams::keep_size, "Otherwise the result holds all of the picture.");
  return add_align_corners<TurnParams>(add_sampling_params<TurnParams>(s))
      .fuses(Fuses::resamples)
      .any_device()
      .takes("@keys", Form::image, 2, 3)
      .resizes("@keys")
      .unless("keep_size", true);
}

// By angles about x, y and z; images of two axes by the first.
inline void turn(Sample& sample, const TurnParams& p, const char* name,
                 const std::vector<double>& angles) {
  for_each_pending(
      sample, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
        const std::vector<double> values(angles.begin(), angles.begin() + (axes == 2 ? 1 : 3));
        const Sampling how = p.sampling(i, flag(p.align_corners, i));
        const Turned t = turned(shape, axes, values, p.keep_size);
        record(field, resampled(t.to_source, t.shape, how), name, with_sampling(values, how));
      });
}

}  // namespace sluice
