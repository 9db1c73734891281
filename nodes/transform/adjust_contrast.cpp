// adjust_contrast: MONAI's AdjustContrastd.
#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct AdjustContrast final : IntensityNode {
  struct Params : ContrastParams<IntensityParams> {
    double gamma = 1;
  } p;

  static Spec spec() {
    Spec s("adjust_contrast", "((x - min) / (range + 1e-7)) ^ gamma * range + min.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("gamma", &Params::gamma, "The exponent.")
        .required()
        .above(0);
    add_contrast_params<Params>(s);
    return add_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      adjust_contrast(field, p.gamma, p.invert_image, p.retain_stats);
    });
    finish(f, std::move(out));
  }
};

const Register<AdjustContrast> registered;

}  // namespace
}  // namespace sluice
