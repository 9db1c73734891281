// VISTA3D's head of points (monai.networks.nets.vista3d 1.6.1, PointMappingSAM), after Kirillov et
// al. 2023 (Segment Anything).
#pragma once

#include "kernels/net/value.h"

namespace sluice {

// tokens [N, prompts, C] and an image [N, C, ...] -> their products [N, prompts, ...].
Value prompt_maps(const Value& tokens, const Value& image);

struct PointHead {
  std::int64_t channels, n_classes, last_supported;

  // A map [N, prompts, ...] of each prompt: features [N, channels, ...], class_vector [N, prompts],
  // coords [N, prompts, points, 3] in voxels of the features, labels [N, prompts, points].
  Value maps(const Scope& s, const Value& features, const Value& class_vector, const Value& coords,
             const Value& labels) const;

 private:
  void unused(const Scope& s) const;
  Value position_waves(int frequencies, const Values& inputs) const;
  Value prompt_tokens(const Scope& s, const Value& waves, const Value& labels,
                      const Value& class_vector) const;
  Value attention(const Scope& s, const Value& q, const Value& k, const Value& v,
                  std::int64_t within) const;
  Value two_way(const Scope& s, const Value& prompts, Value& voxels, const Value& places) const;
};

}  // namespace sluice
