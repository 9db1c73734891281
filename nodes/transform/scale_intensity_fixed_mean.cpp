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
    add_changed_keys(s).param("factor", &Params::factor, "By how much the contrast grows.");
    add_fixed_mean_params<Params>(s);
    return add_intensity_params(s);
  }

  void process(Firing& f) override {
    change_each(f, p, [&](Field& field) { scale_about_mean(field, p.factor, p); });
  }
};

const Register<ScaleIntensityFixedMean> registered;

}  // namespace
}  // namespace sluice
