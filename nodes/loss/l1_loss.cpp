// l1_loss: PyTorch's L1Loss.
#include "kernels/loss/terms.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct L1Loss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("l1_loss", "The absolute difference from the truth.");
    return add_no_reduction(add_pair_loss<Params>(s));
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return pair_loss(PairTerm::l1, pred, truth, reduction());
  }
};

const Register<L1Loss> registered;

}  // namespace
}  // namespace sluice
