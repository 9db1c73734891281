// cross_entropy_loss: PyTorch's CrossEntropyLoss.
#include "nodes/loss/class_index_loss.h"

namespace sluice {
namespace {

struct CrossEntropyParams : ClassIndexParams {
  double label_smoothing = 0;
};

struct CrossEntropyLoss final : ClassIndexLoss<CrossEntropyParams> {
  static Spec spec() {
    Spec s("cross_entropy_loss", "-log of the softmax at the label's class.");
    add_class_index_loss<Params>(
        s, "Field with the network's output, logits [N, C] or [N, C, ...].",
        "Field with the truth: class indices [N] or [N, ...], or probabilities [N, C].")
        .param("label_smoothing", &Params::label_smoothing,
               "Share of the truth that is spread evenly over the classes.")
        .range(0, 1);
    return add_no_reduction(s);
  }

 private:
  bool takes_probabilities() const override { return true; }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& target, const Weight& weight,
                std::int64_t reduction) const override {
    return at::cross_entropy_loss(pred, target, weight, reduction, p.ignore_index,
                                  p.label_smoothing);
  }
};

const Register<CrossEntropyLoss> registered;

}  // namespace
}  // namespace sluice
