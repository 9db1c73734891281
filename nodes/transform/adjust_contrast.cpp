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
    add_changed_keys(s).param("gamma", &Params::gamma, "The exponent.").required().above(0);
    add_contrast_params<Params>(s);
    return add_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    change_each(f, p, [&](Field& field) {
      adjust_contrast(field, p.gamma, p.invert_image, p.retain_stats);
    });
  }
};

const Register<AdjustContrast> registered;

}  // namespace
}  // namespace sluice
