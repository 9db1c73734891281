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
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("offset", &Params::offset, "In the image's units.")
        .required();
    return add_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const std::vector<kernels::Linear> by{{.offset = static_cast<float>(p.offset)}};
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      change_values(field, linear_ops(by), [by](const at::Tensor& from, const at::Tensor& into) {
        return kernels::map(from, by, into);
      });
    });
    finish(f, std::move(out));
  }
};

const Register<ShiftIntensity> registered;

}  // namespace
}  // namespace sluice
