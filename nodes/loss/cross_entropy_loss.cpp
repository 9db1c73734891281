// cross_entropy_loss: PyTorch's CrossEntropyLoss.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct CrossEntropyParams : LossParams {
  std::string reduction = "mean";
  std::optional<std::vector<double>> weight;
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
};

struct CrossEntropyLoss final : LossOf<CrossEntropyParams> {
  static Spec spec() {
    Spec s("cross_entropy_loss", "-log of the softmax at the label's class.");
    return add_loss_params<Params>(
               s, "Field with the network's output, logits [N, C] or [N, C, ...].", Form::any, 0)
        .param("label_key", &Params::label_key,
               "Field with the truth: class indices [N] or [N, ...], or probabilities [N, C].")
        .param("weight", &Params::weight, "By class; null: 1 each.")
        .param("label_smoothing", &Params::label_smoothing,
               "Share of the truth that is spread evenly over the classes.")
        .range(0, 1)
        .param("ignore_index", &Params::ignore_index, "A label that does not count.")
        .param("reduction", &Params::reduction,
               "Over samples; the mean is weighted by the weight of each sample's class.")
        .choices({"mean", "sum"})
        .takes("@label_key", Form::any, 0);
  }

 private:
  bool weighted() const override { return p.weight.has_value(); }

  at::Tensor loss(const at::Tensor& pred, const Firing& f) const override {
    const at::Tensor& label = f.in().tensor(p.label_key);
    std::optional<at::Tensor> weight;
    if (p.weight)
      weight = at::tensor(*p.weight).to(pred.options().requires_grad(false), /*non_blocking=*/true);
    at::Tensor target = label.is_floating_point() ? label : label.to(at::kLong);
    if (f.stream() && !target.is_floating_point())  // LibTorch would stop the device for these
      target = target.masked_fill(no_classes(target, pred.size(1)), p.ignore_index);
    return at::cross_entropy_loss(pred, target, weight,
                                  p.reduction == "mean" ? at::Reduction::Mean : at::Reduction::Sum,
                                  p.ignore_index, p.label_smoothing);
  }

  void check(const at::Tensor& pred, Firing& f) const override {
    const Field& label = f.in().at(p.label_key);
    auto wanted = pred.sizes().vec();
    if (wanted.size() < 2)
      throw DataError("\"" + p.key[0] + "\" " + c10::str(pred.sizes()) + " is no [N, C, ...]");
    const std::int64_t classes = wanted[1];
    if (p.weight && static_cast<std::int64_t>(p.weight->size()) != classes)
      throw Error(Exit::usage, "weight has " + std::to_string(p.weight->size()) + " values for " +
                                   std::to_string(classes) + " classes");
    const bool is_probability =
        label.tensor.is_floating_point() && label.tensor.sizes() == pred.sizes();
    if (is_probability) return;
    wanted.erase(wanted.begin() + 1);
    if (label.tensor.sizes() != at::IntArrayRef(wanted) || label.tensor.is_floating_point())
      throw DataError("label " + std::string(label.tensor.dtype().name()) + " " +
                      c10::str(label.tensor.sizes()) + " does not fit the output " +
                      c10::str(pred.sizes()));
    f.when_done([this, &f, &label, classes] { check_classes(f.in(), label, classes); });
  }

  at::Tensor no_classes(const at::Tensor& target, std::int64_t classes) const {
    return target.lt(0).logical_or_(target.ge(classes)).logical_and_(target.ne(p.ignore_index));
  }

  void check_classes(const Sample& sample, const Field& label, std::int64_t classes) const {
    const at::Tensor& t = label.tensor;
    if (!t.device().is_cpu() && !no_classes(t, classes).any().item<bool>()) return;
    const at::Tensor values = t.to(at::kCPU, at::kLong).contiguous();
    const std::int64_t* v = values.const_data_ptr<std::int64_t>();
    const std::int64_t each = values.numel() / std::max<std::int64_t>(1, values.size(0));
    for (std::int64_t i = 0; i < values.numel(); ++i)
      if ((v[i] < 0 || v[i] >= classes) && v[i] != p.ignore_index)
        throw bad_label(sample, label, i / each, std::to_string(v[i]), classes);
  }
};

const Register<CrossEntropyLoss> registered;

}  // namespace
}  // namespace sluice
