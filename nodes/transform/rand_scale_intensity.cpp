// rand_scale_intensity: MONAI's RandScaleIntensityd. One draw for all keys.
#include "nodes/transform/rand_linear.h"

namespace sluice {
namespace {

struct RandScaleIntensity final : RandLinear {
  static Spec spec() {
    return rand_linear_spec("rand_scale_intensity",
                            "x (1 + f), f uniform, with one draw for all keys.", "factors",
                            "Bounds of f; one number v stands for [-v, v].");
  }

  void process(Firing& f) override {
    change_linearly(f, [](double v) { return kernels::Linear{.gain = static_cast<float>(1 + v)}; });
  }
};

const Register<RandScaleIntensity> registered;

}  // namespace
}  // namespace sluice
