// rand_gamma: batchgeneratorsv2's GammaTransform.
#include "nodes/transform/channel_draws.h"

namespace sluice {
namespace {

constexpr double least_range = 1e-7;  // that anything is divided by

struct RandGamma final : EachChannel<RandGamma> {
  struct Params : ChannelParams {
    std::vector<double> gamma{0.7, 1.5};
    double invert_prob = 0, retain_stats_prob = 1;
  } p;

  static Spec spec() {
    return channel_spec<Params>(
               "rand_gamma",
               "((x - min) / range)^gamma range + min of each channel, as nnU-Net does.")
        .param("gamma", &Params::gamma, "[low, high]: below 1 as often as above.")
        .length(2, 2)
        .above(0)
        .param("invert_prob", &Params::invert_prob, "Probability that it is done to -x.")
        .range(0, 1)
        .param("retain_stats_prob", &Params::retain_stats_prob,
               "Probability that a channel gets the mean and the deviation back that it had.")
        .range(0, 1);
  }

  at::Tensor changed(at::Tensor x, std::int64_t, Random& random) const {
    const bool retains = random.chance(p.retain_stats_prob), inverts = random.chance(p.invert_prob);
    const double gamma = draw_about_one(random, p.gamma);
    if (inverts) x.neg_();
    const double mean = x.mean().item<double>(), std = x.std().item<double>();
    const auto [low, high] = at::aminmax(x);
    const double min = low.item<double>(), range = high.item<double>() - min;
    x.sub_(min).div_(std::max(range, least_range)).pow_(gamma).mul_(range).add_(min);
    if (retains) {
      const double now = x.mean().item<double>();
      x.sub_(now).mul_(std / std::max(x.std().item<double>(), least_range)).add_(mean);
    }
    return inverts ? x.neg_() : x;
  }
};

const Register<RandGamma> registered;

}  // namespace
}  // namespace sluice
