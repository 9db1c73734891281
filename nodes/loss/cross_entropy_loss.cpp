// cross_entropy_loss: PyTorch's CrossEntropyLoss.
#include "kernels/loss/terms.h"
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
    if (p.label_smoothing == 0 && reduction != at::Reduction::None && fuses(pred, target))
      if (const at::Tensor loss = fused_cross_entropy(pred, target, weights(pred.size(1)),
                                                      reduction == at::Reduction::Mean);
          loss.defined())
        return loss;
    return at::cross_entropy_loss(pred, as_indices(target), weight, reduction, p.ignore_index,
                                  p.label_smoothing);
  }

  // The fused one reads a label as a byte, so the ignored one must not look like a class there.
  bool fuses(const at::Tensor& pred, const at::Tensor& target) const {
    return !target.is_floating_point() &&
           (is_class(p.ignore_index, pred) || !is_class(p.ignore_index & 255, pred));
  }
  static bool is_class(std::int64_t index, const at::Tensor& pred) {
    return index >= 0 && index < pred.size(1);
  }
  std::vector<double> weights(std::int64_t classes) const {
    std::vector<double> all =
        p.weight.value_or(std::vector<double>(static_cast<std::size_t>(classes), 1.0));
    if (p.ignore_index >= 0 && p.ignore_index < classes)
      all[static_cast<std::size_t>(p.ignore_index)] = 0;
    return all;
  }
};

const Register<CrossEntropyLoss> registered;

}  // namespace
}  // namespace sluice
