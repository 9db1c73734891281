// std_shift_intensity: MONAI's StdShiftIntensityd.
#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct StdShiftIntensity final : IntensityNode {
  struct Params : DeviationParams<IntensityParams> {
    double factor = 0;
  } p;

  static Spec spec() {
    Spec s("std_shift_intensity", "x + factor std, std the image's own.");
    add_changed_keys(s)
        .param("factor", &Params::factor, "How many standard deviations.")
        .required();
    add_deviation_params<Params>(s);
    return add_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    change_each(f, p, [&](Field& field) {
      shift_by_deviation(field, p.factor, p.nonzero, p.channel_wise);
    });
  }
};

const Register<StdShiftIntensity> registered;

}  // namespace
}  // namespace sluice
