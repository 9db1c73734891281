// rand_adjust_contrast: MONAI's RandAdjustContrastd. One draw for all keys.
#include <algorithm>

#include "nodes/transform/intensity_changes.h"

namespace sluice {
namespace {

struct RandAdjustContrast final : IntensityNode {
  struct Params : ContrastParams<RandIntensityParams> {
    std::vector<double> gamma{0.5, 4.5};
  } p;

  static Spec spec() {
    Spec s("rand_adjust_contrast",
           "((x - min) / (range + 1e-7)) ^ gamma * range + min, with one gamma for all keys.");
    add_changed_keys(s)
        .param("gamma", &Params::gamma,
               "Bounds of the exponent; one number g above 0.5 stands for [0.5, g].")
        .above(0)
        .length(1, 2);
    add_contrast_params<Params>(s);
    return add_rand_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.gamma.size() == 1) p.gamma.insert(p.gamma.begin(), 0.5);
    std::sort(p.gamma.begin(), p.gamma.end());
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const double gamma = random.uniform(p.gamma[0], p.gamma[1]);
    change_each(
        f, p, [&](Field& field) { adjust_contrast(field, gamma, p.invert_image, p.retain_stats); });
  }
};

const Register<RandAdjustContrast> registered;

}  // namespace
}  // namespace sluice
