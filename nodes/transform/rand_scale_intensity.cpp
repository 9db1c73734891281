// rand_scale_intensity: MONAI's RandScaleIntensityd. One draw for all keys.
#include "nodes/transform/rand_linear.h"

namespace sluice {
namespace {

struct RandScaleIntensity final : RandLinear {
  struct Params : RandLinearParams {
    std::vector<double> factors;
  } p;

  static Spec spec() {
    Spec s("rand_scale_intensity", "x (1 + f), f uniform, with one draw for all keys.");
    add_changed_keys(s)
        .param("factors", &Params::factors, "Bounds of f; one number v stands for [-v, v].")
        .required()
        .length(1, 2);
    return add_rand_linear_params(s);
  }

  void process(Firing& f) override {
    change_linearly(f, p, p.factors,
                    [](double v) { return kernels::Linear{.gain = static_cast<float>(1 + v)}; });
  }
};

const Register<RandScaleIntensity> registered;

}  // namespace
}  // namespace sluice
