// shift_intensity: MONAI's ShiftIntensityd.
#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct ShiftIntensity final : IntensityNode {
  struct Params : IntensityParams {
    double offset = 0;
  } p;

  static Spec spec() {
    Spec s("shift_intensity", "x + offset.");
    add_changed_keys(s).param("offset", &Params::offset, "In the image's units.").required();
    return add_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    const std::vector<kernels::Linear> by{{.offset = static_cast<float>(p.offset)}};
    change_each(f, p, [&](Field& field) {
      change_values(field, linear_ops(by), [by](const at::Tensor& from, const at::Tensor& into) {
        return kernels::map(from, by, into);
      });
    });
  }
};

const Register<ShiftIntensity> registered;

}  // namespace
}  // namespace sluice
