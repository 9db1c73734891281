// nll_loss: PyTorch's NLLLoss.
#include "nodes/loss/class_index_loss.h"

namespace sluice {
namespace {

struct NllLoss final : ClassIndexLoss<ClassIndexParams> {
  static Spec spec() {
    Spec s("nll_loss", "Less the output at the label's class: of logarithms of probabilities.");
    add_class_index_loss<Params>(s,
                                 "Field with logarithms of probabilities, [N, C] or [N, C, ...].",
                                 "Field with the truth: class indices [N] or [N, ...].");
    return add_no_reduction(s);
  }

 private:
  at::Tensor of(const at::Tensor& pred, const at::Tensor& target, const Weight& weight,
                std::int64_t reduction) const override {
    return at::nll_loss_nd(pred, as_indices(target), weight, reduction, p.ignore_index);
  }
};

const Register<NllLoss> registered;

}  // namespace
}  // namespace sluice
