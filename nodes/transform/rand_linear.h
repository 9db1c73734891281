// What rand_scale_intensity and rand_shift_intensity share.
#pragma once

#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

struct RandLinearParams : RandIntensityParams {
  bool channel_wise = false;
};

inline Spec& add_rand_linear_params(Spec& s) {
  s.param("channel_wise", &RandLinearParams::channel_wise, "A draw of its own for each channel.");
  return add_rand_intensity_params(s).fuses(Fuses::values).any_device();
}

struct RandLinear : FusedNode {
 protected:
  // By change(v), v drawn between the bounds: once, or for each channel.
  template <class Change>
  void change_linearly(Firing& f, const RandLinearParams& p, const std::vector<double>& bounds,
                       Change&& change) const {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      Random draws = random;  // a copy: every key gets the same numbers
      const bool each = p.channel_wise && field.tensor.dim() > 0;
      std::vector<kernels::Linear> functors(each ? field.tensor.size(0) : 1);
      for (auto& functor : functors) functor = change(draw(draws, bounds));
      change_values(field, linear_ops(functors),
                    [functors](const at::Tensor& from, const at::Tensor& into) {
                      return kernels::map(from, functors, into);
                    });
    });
    finish(f, std::move(out));
  }
};

}  // namespace sluice
