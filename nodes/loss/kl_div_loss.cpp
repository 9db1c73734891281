// kl_div_loss: PyTorch's KLDivLoss.
#include "kernels/base/autograd.h"
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
    const at::Tensor sum = truth.requires_grad()
                               ? at::kl_div(pred, truth, at::Reduction::Sum, p.log_target)
                               : divergence(pred, truth);
    if (p.reduction == "sum") return sum;
    return sum / (p.reduction == "mean" ? pred.numel() : pred.size(0));
  }

 private:
  struct Shares {
    at::Tensor truth;
    bool log_target;
    std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
      return {(log_target ? truth.exp() : truth) * -grads[0]};
    }
  };
  // On the host in blocks, so that nothing of all numbers is in memory. The logarithm of 0 counts
  // 0.
  at::Tensor divergence(const at::Tensor& pred, const at::Tensor& truth) const {
    const std::int64_t block = pred.is_cpu() ? 1 << 16 : std::max<std::int64_t>(pred.numel(), 1);
    const auto all = pred.detach().reshape(-1).split(block),
               truths = truth.reshape(-1).split(block);
    at::Tensor sum = at::zeros({}, pred.options().requires_grad(false));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const at::Tensor& t = truths[i];
      const at::Tensor share = p.log_target ? t.exp() : t;
      const at::Tensor own = p.log_target ? t : (t + t.eq(0)).log_();
      sum.add_((share * (own - all[i])).sum());
    }
    attach("KlDivBackward", {sum}, {pred}, Shares{truth, p.log_target});
    return sum;
  }
};

const Register<KlDivLoss> registered;

}  // namespace
}  // namespace sluice
