// rand_contrast: batchgeneratorsv2's ContrastTransform.
#include "nodes/transform/channel_draws.h"

namespace sluice {
namespace {

struct RandContrast final : EachChannel<RandContrast> {
  struct Params : ChannelParams {
    std::vector<double> contrast_range{0.75, 1.25};
    bool preserve_range = true;
  } p;

  static Spec spec() {
    return channel_spec<Params>("rand_contrast",
                                "(x - mean) f + mean of each channel, as nnU-Net does.")
        .param("contrast_range", &Params::contrast_range,
               "[low, high] of the factor f: below 1 as often as above.")
        .length(2, 2)
        .above(0)
        .param("preserve_range", &Params::preserve_range, "Clip to what the channel had.");
  }

  at::Tensor changed(at::Tensor x, std::int64_t, Random& random) const {
    const double factor = draw_about_one(random, p.contrast_range);
    const double mean = x.mean().item<double>();
    const auto [low, high] = at::aminmax(x);
    x.sub_(mean).mul_(factor).add_(mean);
    return p.preserve_range ? x.clamp_(low.item<float>(), high.item<float>()) : x;
  }
};

const Register<RandContrast> registered;

}  // namespace
}  // namespace sluice
