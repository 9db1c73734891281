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
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("factor", &Params::factor, "How many standard deviations.")
        .required();
    add_deviation_params<Params>(s);
    return add_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      shift_by_deviation(field, p.factor, p.nonzero, p.channel_wise);
    });
    finish(f, std::move(out));
  }
};

const Register<StdShiftIntensity> registered;

}  // namespace
}  // namespace sluice
