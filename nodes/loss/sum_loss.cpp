// sum_loss: a number with gradients, to try out whether a graph trains.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct SumLoss final : LossOf<LossParams> {
  static Spec spec() {
    Spec s("sum_loss", "The sum of a network's output: for trying a pipeline out.");
    return add_loss_params<Params>(s, "Field with the network's output, [N, C, ...].", Form::any, 0)
        .couples();
  }

 private:
  at::Tensor loss(const at::Tensor& pred, const Firing&) const override {
    return pred.sum(float_type(pred));
  }
};

const Register<SumLoss> registered;

}  // namespace
}  // namespace sluice
