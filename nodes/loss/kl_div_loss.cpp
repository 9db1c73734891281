// kl_div_loss: PyTorch's KLDivLoss.
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct KlDivLossParams : PairLossParams {
  bool log_target = false;
};

struct KlDivLoss final : PairLoss<KlDivLossParams> {
  static Spec spec() {
    Spec s(
        "kl_div_loss",
        "Kullback-Leibler divergence of the output, logarithms of probabilities, from the truth.");
    add_no_reduction(add_pair_loss<Params>(s));
    for (ParamSpec& param : s.params)
      if (param.name == "reduction") param.choices.emplace_back("batchmean");
    return s.param("log_target", &Params::log_target, "The truth is logarithms too.");
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    if (p.reduction == "none") return at::kl_div(pred, truth, reduction(), p.log_target);
    // The truth's own part has no place for each voxel, nor gradients. The logarithm of 0 counts 0.
    const at::Tensor share = p.log_target ? truth.exp() : truth;
    const at::Tensor own =
        (p.log_target ? share * truth : (truth + truth.eq(0)).log_().mul_(truth)).sum();
    const at::Tensor sum = own - (share * pred).sum();
    if (p.reduction == "sum") return sum;
    return sum / (p.reduction == "mean" ? pred.numel() : pred.size(0));
  }
};

const Register<KlDivLoss> registered;

}  // namespace
}  // namespace sluice
