// smooth_l1_loss: PyTorch's SmoothL1Loss.
#include "kernels/loss/terms.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct SmoothL1LossParams : PairLossParams {
  double beta = 1;
};

struct SmoothL1Loss final : PairLoss<SmoothL1LossParams> {
  static Spec spec() {
    Spec s("smooth_l1_loss",
           "The absolute difference from the truth less beta / 2; below beta the squared one over "
           "2 beta.");
    return add_no_reduction(add_pair_loss<Params>(s))
        .param("beta", &Params::beta, "Where both meet; 0: the absolute difference.")
        .at_least(0);
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return p.beta == 0 ? pair_loss(PairTerm::l1, pred, truth, reduction())
                       : pair_loss(PairTerm::smooth_l1, pred, truth, reduction(), p.beta);
  }
};

const Register<SmoothL1Loss> registered;

}  // namespace
}  // namespace sluice
