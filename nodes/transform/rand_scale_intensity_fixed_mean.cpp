// rand_scale_intensity_fixed_mean: MONAI's RandScaleIntensityFixedMeand. One draw for all keys.
#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct RandScaleIntensityFixedMean final : IntensityNode {
  struct Params : FixedMeanParams<RandIntensityParams> {
    std::vector<double> factors{0};
  } p;

  static Spec spec() {
    Spec s("rand_scale_intensity_fixed_mean",
           "(x - mean) (1 + f) + mean, f uniform, with one draw for all keys.");
    add_changed_keys(s)
        .param("factors", &Params::factors, "Bounds of f; one number v stands for [-v, v].")
        .length(1, 2);
    add_fixed_mean_params<Params>(s);
    return add_rand_intensity_params(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const double factor = draw(random, p.factors);
    change_each(f, p, [&](Field& field) { scale_about_mean(field, factor, p); });
  }
};

const Register<RandScaleIntensityFixedMean> registered;

}  // namespace
}  // namespace sluice
