// huber_loss: PyTorch's HuberLoss.
#include "kernels/loss/terms.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct HuberLossParams : PairLossParams {
  double delta = 1;
};

struct HuberLoss final : PairLoss<HuberLossParams> {
  static Spec spec() {
    Spec s("huber_loss",
           "Half the squared difference from the truth; above delta it grows in a straight line.");
    return add_no_reduction(add_pair_loss<Params>(s))
        .param("delta", &Params::delta, "Where the line begins.")
        .above(0);
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return pair_loss(PairTerm::huber, pred, truth, reduction(), p.delta);
  }
};

const Register<HuberLoss> registered;

}  // namespace
}  // namespace sluice
