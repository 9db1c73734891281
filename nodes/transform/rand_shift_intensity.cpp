// rand_shift_intensity: MONAI's RandShiftIntensityd. One draw for all keys.
#include "nodes/transform/rand_linear.h"

namespace sluice {
namespace {

struct RandShiftIntensity final : RandLinear {
  static Spec spec() {
    return rand_linear_spec("rand_shift_intensity", "x + o, o uniform, with one draw for all keys.",
                            "offsets",
                            "Bounds of o, in the image's units; one number v stands for [-v, v].");
  }

  void process(Firing& f) override {
    change_linearly(f, [](double v) { return kernels::Linear{.offset = static_cast<float>(v)}; });
  }
};

const Register<RandShiftIntensity> registered;

}  // namespace
}  // namespace sluice
