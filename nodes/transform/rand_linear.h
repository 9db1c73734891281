// What rand_scale_intensity and rand_shift_intensity share.
#pragma once

#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

struct RandLinearParams : RandIntensityParams {
  std::vector<double> bounds;
  bool channel_wise = false;
};

// `bounds`: what its parameter is called, and is.
inline Spec rand_linear_spec(std::string name, std::string does, std::string_view bounds,
                             std::string_view bounds_doc) {
  Spec s(std::move(name), std::move(does));
  add_changed_keys(s)
      .param(bounds, &RandLinearParams::bounds, bounds_doc)
      .required()
      .length(1, 2)
      .param("channel_wise", &RandLinearParams::channel_wise,
             "A draw of its own for each channel.");
  add_rand_intensity_params(s).fuses(Fuses::values).any_device();
  return s;
}

struct RandLinear : FusedNode {
  using Params = RandLinearParams;
  Params p;

 protected:
  // By change(v), v drawn between the bounds: once, or for each channel.
  template <class Change>
  void change_linearly(Firing& f, Change&& change) const {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      Random draws = random;  // a copy: every key gets the same numbers
      const bool each = p.channel_wise && field.tensor.dim() > 0;
      std::vector<kernels::Linear> functors(each ? field.tensor.size(0) : 1);
      for (auto& functor : functors) functor = change(draw(draws, p.bounds));
      change_values(field, linear_ops(functors),
                    [functors](const at::Tensor& from, const at::Tensor& into) {
                      return kernels::map(from, functors, into);
                    });
    });
    finish(f, std::move(out));
  }
};

}  // namespace sluice
