// rand_std_shift_intensity: MONAI's RandStdShiftIntensityd. One draw for all keys.
#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct RandStdShiftIntensity final : IntensityNode {
  struct Params : DeviationParams<RandIntensityParams> {
    std::vector<double> factors;
  } p;

  static Spec spec() {
    Spec s("rand_std_shift_intensity",
           "x + f std, f uniform and std the image's own, with one draw for all keys.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("factors", &Params::factors, "Bounds of f; one number v stands for [-v, v].")
        .required()
        .length(1, 2);
    add_deviation_params<Params>(s);
    return add_rand_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const double factor = draw(random, p.factors);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      shift_by_deviation(field, factor, p.nonzero, p.channel_wise);
    });
    finish(f, std::move(out));
  }
};

const Register<RandStdShiftIntensity> registered;

}  // namespace
}  // namespace sluice
