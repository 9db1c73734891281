// contrastive_loss: MONAI's ContrastiveLoss (Chen et al. 2020, SimCLR's).
#include "nodes/loss/vector_loss.h"

namespace sluice {
namespace {

struct ContrastiveLossParams : PairLossParams {
  double temperature = 0.5;
};

struct ContrastiveLoss final : PairLoss<ContrastiveLossParams> {
  static Spec spec() {
    Spec s("contrastive_loss",
           "Cross entropy of each sample's other view among all samples of both, by cosine "
           "similarity.");
    return add_plain_pair_loss<Params>(s, "Field with the network's output, [N, features].",
                                       "Field with the other view's, the same.")
        .param("temperature", &Params::temperature, "What similarities are divided by.")
        .above(0)
        .couples();
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    const std::int64_t n = pred.size(0);
    const at::Tensor all = at::cat({pred, truth});
    // Cosines of all pairs as one product; at::cosine_similarity makes [2N, 2N, features].
    const at::Tensor unit = all / all.norm(2, {1}, true).clamp_min(1e-8);
    const at::Tensor alike = unit.mm(unit.t()) / p.temperature;
    const at::Tensor others = 1 - at::eye(2 * n, alike.options());
    const at::Tensor same = at::cat({alike.diagonal(n), alike.diagonal(-n)});
    return ((others * alike.exp()).sum(1).log() - same).mean();
  }

 private:
  void fits(const at::Tensor& pred) const override { check_vectors(pred, 1); }
};

const Register<ContrastiveLoss> registered;

}  // namespace
}  // namespace sluice
