// scale_intensity_fixed_mean: MONAI's ScaleIntensityFixedMeand.
#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct ScaleIntensityFixedMean final : IntensityNode {
  struct Params : FixedMeanParams<IntensityParams> {
    double factor = 0;
  } p;

  static Spec spec() {
    Spec s("scale_intensity_fixed_mean", "(x - mean) (1 + factor) + mean.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("factor", &Params::factor, "By how much the contrast grows.");
    add_fixed_mean_params<Params>(s);
    return add_intensity_params(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys,
                 [&](Field& field, std::size_t) { scale_about_mean(field, p.factor, p); });
    finish(f, std::move(out));
  }
};

const Register<ScaleIntensityFixedMean> registered;

}  // namespace
}  // namespace sluice
