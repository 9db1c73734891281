// gaussian_kl_loss: how far normal distributions are from the standard one, which keeps the latent
// images of an autoencoder_kl near it. Kingma and Welling 2014, appendix B.
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct GaussianKlLoss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("gaussian_kl_loss",
           "The Kullback-Leibler divergence of N(mean, deviation^2) from N(0, 1), summed over a "
           "member's numbers: (mean^2 + deviation^2 - log deviation^2 - 1) / 2.");
    return add_reduction<Params>(add_plain_pair_loss<Params>(
        s, "Field with the means, [N, ...]: an output of autoencoder_kl.",
        "Field with the deviations, of the means' shape: another output, whose gradient goes "
        "through too."));
  }
  at::Tensor of(const at::Tensor& mean, const at::Tensor& deviation) const override {
    const at::Tensor square = deviation.square();
    const at::Tensor all = (mean.square() + square - square.log() - 1).sum() / 2;
    return p.reduction == "mean" ? all / static_cast<double>(mean.size(0)) : all;
  }
};

const Register<GaussianKlLoss> registered;

}  // namespace
}  // namespace sluice
