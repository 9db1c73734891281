// rand_shift_intensity: MONAI's RandShiftIntensityd. One draw for all keys.
#include "nodes/transform/rand_linear.h"

namespace sluice {
namespace {

struct RandShiftIntensity final : RandLinear {
  struct Params : RandLinearParams {
    std::vector<double> offsets;
  } p;

  static Spec spec() {
    Spec s("rand_shift_intensity", "x + o, o uniform, with one draw for all keys.");
    add_changed_keys(s)
        .param("offsets", &Params::offsets,
               "Bounds of o, in the image's units; one number v stands for [-v, v].")
        .required()
        .length(1, 2);
    return add_rand_linear_params(s);
  }

  void process(Firing& f) override {
    change_linearly(f, p, p.offsets,
                    [](double v) { return kernels::Linear{.offset = static_cast<float>(v)}; });
  }
};

const Register<RandShiftIntensity> registered;

}  // namespace
}  // namespace sluice
