// scale_intensity: MONAI's ScaleIntensityd.
#include "kernels/augment/intensity_ops.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/typed_intensity.h"

namespace sluice {
namespace {

struct ScaleIntensity final : TypedNode {
  struct Params : TypedParams {
    std::optional<double> minv = 0.0, maxv = 1.0, factor;
    bool channel_wise = false;
  } p;

  static Spec spec() {
    Spec s("scale_intensity", "Maps the image's own range to [minv, maxv], or x to x (1 + f).");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to scale, each [C, ...].")
        .param("minv", &Params::minv,
               "Lower bound of the result; null here or at maxv: [0, 1]. A flat image becomes "
               "x minv.")
        .param("maxv", &Params::maxv, "Upper bound of the result.")
        .param("factor", &Params::factor, "With minv and maxv both null: x (1 + factor).")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own range.");
    return add_typed_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      if (field.tensor.dim() < 1 || field.tensor.numel() == 0)
        throw shape_error(p.keys[i], field.tensor, ": nothing to scale");
      change_typed(field, p, [&] { scale(field); });
    });
    finish(f, std::move(out));
  }

  void scale(Field& field) const {
    if (!p.minv && !p.maxv) {
      const std::vector<kernels::Linear> by{{static_cast<float>(1 + p.factor.value_or(0)), 0}};
      return change_values(field, linear_ops(by),
                           [by](const at::Tensor& from, const at::Tensor& into) {
                             return kernels::map(from, by, into);
                           });
    }
    const auto op = kernels::scale_op(p.minv, p.maxv, p.factor, p.channel_wise);
    change_values(field, {op}, [given = p](const at::Tensor& from, const at::Tensor& into) {
      std::vector<kernels::Rescale> functors;
      for (const auto& range : kernels::ranges(from, given.channel_wise))
        functors.push_back(kernels::onto(given.minv, given.maxv, range.low, range.high));
      return kernels::map(from, functors, into);
    });
  }
};

const Register<ScaleIntensity> registered;

}  // namespace
}  // namespace sluice
