// l1_loss: PyTorch's L1Loss.
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct L1Loss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("l1_loss", "The absolute difference from the truth.");
    return add_no_reduction(add_pair_loss<Params>(s));
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return at::l1_loss(pred, truth, reduction());
  }
};

const Register<L1Loss> registered;

}  // namespace
}  // namespace sluice
