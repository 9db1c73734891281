// barlow_twins_loss: MONAI's BarlowTwinsLoss (Zbontar et al. 2021).
#include "nodes/loss/vector_loss.h"

namespace sluice {
namespace {

struct BarlowTwinsLossParams : PairLossParams {
  double lambd = 5e-3;
};

struct BarlowTwinsLoss final : PairLoss<BarlowTwinsLossParams> {
  static Spec spec() {
    Spec s("barlow_twins_loss",
           "How far the features' correlation between two views is from the identity.");
    return add_plain_pair_loss<Params>(s, "Field with the network's output, [N, features].",
                                       "Field with the other view's, the same.")
        .param("lambd", &Params::lambd, "Weight of what is off the diagonal.")
        .at_least(0)
        .couples();
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    const auto norm = [](const at::Tensor& x) { return (x - x.mean(0)) / (x.std(0) + 1e-6); };
    const at::Tensor c = at::mm(norm(pred).t(), norm(truth)) / pred.size(0);
    const at::Tensor apart = c - at::eye(c.size(0), c.options());
    return p.lambd * apart.square().sum() + (1 - p.lambd) * apart.diagonal().square().sum();
  }

 private:
  void fits(const at::Tensor& pred) const override { check_vectors(pred, 2); }
};

const Register<BarlowTwinsLoss> registered;

}  // namespace
}  // namespace sluice
