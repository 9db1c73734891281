// gaussian_kl_loss: how far normal distributions are from the standard one, which keeps the latent
// numbers of a variational network near it. Kingma and Welling 2014, appendix B.
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct GaussianKlParams : PairLossParams {
  std::string spread = "deviation";
};

struct GaussianKlLoss final : PairLoss<GaussianKlParams> {
  static Spec spec() {
    Spec s("gaussian_kl_loss",
           "The Kullback-Leibler divergence of N(mean, deviation^2) from N(0, 1), summed over a "
           "member's numbers: (mean^2 + deviation^2 - log deviation^2 - 1) / 2.");
    return add_reduction<Params>(
               add_plain_pair_loss<Params>(
                   s, "Field with the means, [N, ...]: an output of a variational network.",
                   "Field with their spread, of the means' shape: another output, whose gradient "
                   "goes through too."))
        .param("spread", &Params::spread,
               "What label_key holds. deviation: the standard deviations, as autoencoder_kl gives "
               "them; logvar: the logarithms of the variances, as var_auto_encoder, "
               "var_fully_connected_net and spade_net do.")
        .choices({"deviation", "logvar"});
  }
  at::Tensor of(const at::Tensor& mean, const at::Tensor& spread) const override {
    const bool logarithms = p.spread == "logvar";
    const at::Tensor variance = logarithms ? spread.exp() : spread.square(),
                     logvar = logarithms ? spread : variance.log();
    const at::Tensor all = (mean.square() + variance - logvar - 1).sum() / 2;
    return p.reduction == "mean" ? all / static_cast<double>(mean.size(0)) : all;
  }

 private:
  void look(Firing& f) const override {
    if (p.spread == "logvar") return;
    f.when_done([this, &f] {
      const at::Tensor& deviation = f.in().tensor(p.label_key);
      if (deviation.numel() > 0 && deviation.detach().lt(0).any().item<bool>())
        throw DataError("\"" + p.label_key +
                        "\" has values below 0, which no standard deviation is: set \"spread\" to "
                        "\"logvar\" if it holds logarithms of variances");
    });
  }
};

const Register<GaussianKlLoss> registered;

}  // namespace
}  // namespace sluice
