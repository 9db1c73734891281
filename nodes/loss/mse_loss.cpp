// mse_loss: PyTorch's MSELoss.
#include "kernels/loss/terms.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct MseLoss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("mse_loss", "The squared difference from the truth.");
    return add_no_reduction(add_pair_loss<Params>(s));
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return pair_loss(PairTerm::mse, pred, truth, reduction());
  }
};

const Register<MseLoss> registered;

}  // namespace
}  // namespace sluice
