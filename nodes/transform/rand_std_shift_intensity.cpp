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
    add_changed_keys(s)
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
    change_each(
        f, p, [&](Field& field) { shift_by_deviation(field, factor, p.nonzero, p.channel_wise); });
  }
};

const Register<RandStdShiftIntensity> registered;

}  // namespace
}  // namespace sluice
