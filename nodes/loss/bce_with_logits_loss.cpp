// bce_with_logits_loss: PyTorch's BCEWithLogitsLoss.
#include "kernels/loss/terms.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct BceWithLogitsLossParams : PairLossParams {
  std::optional<std::vector<double>> pos_weight, weight;
};

struct BceWithLogitsLoss final : PairLoss<BceWithLogitsLossParams> {
  static Spec spec() {
    Spec s("bce_with_logits_loss", "Binary cross entropy of the output's sigmoid.");
    return add_no_reduction(add_pair_loss<Params>(s))
        .param("pos_weight", &Params::pos_weight,
               "Weight of what is 1 in the truth, by channel (axis 1), or one for all.")
        .param("weight", &Params::weight, "By channel (axis 1), or one for all.");
  }
  bool weighted() const override { return p.pos_weight || p.weight; }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return bce_with_logits(pred, truth, by_channel(p.weight, pred, "weight"),
                           by_channel(p.pos_weight, pred, "pos_weight"), reduction());
  }

 private:
  static std::optional<at::Tensor> by_channel(const std::optional<std::vector<double>>& weights,
                                              const at::Tensor& pred, const char* name) {
    if (!weights) return std::nullopt;
    const auto given = std::ssize(*weights);
    if (given != 1 && (pred.dim() < 2 || given != pred.size(1)))
      throw Error(Exit::usage, std::string(name) + " has " + std::to_string(given) +
                                   " values for the output " + c10::str(pred.sizes()));
    std::vector<std::int64_t> shape(static_cast<std::size_t>(pred.dim()), 1);
    if (given > 1) shape[1] = given;
    return at::tensor(*weights, at::kDouble)
        .to(pred.options().requires_grad(false), /*non_blocking=*/true)
        .view(shape);
  }
};

const Register<BceWithLogitsLoss> registered;

}  // namespace
}  // namespace sluice
