// scale_intensity_range: MONAI's ScaleIntensityRanged.
#include "kernels/augment/intensity_ops.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/typed_intensity.h"

namespace sluice {
namespace {

struct ScaleIntensityRange final : TypedNode {
  struct Params : TypedParams {
    double a_min = 0, a_max = 1;
    std::optional<double> b_min, b_max;
    bool clip = false;
  } p;

  static Spec spec() {
    Spec s("scale_intensity_range", "Maps [a_min, a_max] linearly to [b_min, b_max].");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to scale, each [C, ...].")
        .param("a_min", &Params::a_min, "Lower input bound, in the image's units.")
        .required()
        .param("a_max", &Params::a_max, "Upper input bound, in the image's units.")
        .required()
        .param("b_min", &Params::b_min, "Lower output bound; null here or at b_max: [0, 1].")
        .param("b_max", &Params::b_max, "Upper output bound.")
        .param("clip", &Params::clip, "Hold the result between b_min and b_max.");
    return add_typed_params(s).fuses(Fuses::values).any_device();
  }

  void open(const OpenContext& context) override {
    TypedNode::open(context);
    functor_ = kernels::rescale(p.a_min, p.a_max, p.b_min, p.b_max, p.clip);
  }

  void process(Firing& f) override {
    const auto& r = functor_;
    const kernels::AugmentOp op = kernels::rescale_op(r);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      change_typed(field, p, [&] {
        change_values(field, {op}, [r](const at::Tensor& from, const at::Tensor& into) {
          return kernels::map<kernels::Rescale>(from, {r}, into);
        });
      });
    });
    finish(f, std::move(out));
  }

 private:
  kernels::Rescale functor_;
};

const Register<ScaleIntensityRange> registered;

}  // namespace
}  // namespace sluice
