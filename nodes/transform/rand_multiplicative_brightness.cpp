// rand_multiplicative_brightness: batchgeneratorsv2's MultiplicativeBrightnessTransform.
#include "nodes/transform/channel_draws.h"

namespace sluice {
namespace {

struct RandMultiplicativeBrightness final : EachChannel<RandMultiplicativeBrightness> {
  struct Params : ChannelParams {
    std::vector<double> multiplier_range{0.75, 1.25};
  } p;

  static Spec spec() {
    return channel_spec<Params>("rand_multiplicative_brightness",
                                "Multiplies each channel by a factor of its own, as nnU-Net does.")
        .param("multiplier_range", &Params::multiplier_range,
               "[low, high]: below 1 as often as above.")
        .length(2, 2)
        .above(0);
  }

  at::Tensor changed(at::Tensor x, std::int64_t, Random& random) const {
    return x.mul_(draw_about_one(random, p.multiplier_range));
  }
};

const Register<RandMultiplicativeBrightness> registered;

}  // namespace
}  // namespace sluice
