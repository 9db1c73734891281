// bce_loss: PyTorch's BCELoss.
#include "kernels/loss/terms.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct BceLoss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("bce_loss", "Binary cross entropy of probabilities.");
    return add_no_reduction(add_pair_loss<Params>(s));
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return pair_loss(PairTerm::bce, pred, truth, reduction());
  }
};

const Register<BceLoss> registered;

}  // namespace
}  // namespace sluice
