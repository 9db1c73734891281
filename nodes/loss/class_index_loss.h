// Losses of the label's class among the channels: of [N, C, ...], with classes [N, ...].
#pragma once

#include "nodes/loss/loss.h"

namespace sluice {

struct ClassIndexParams : LossParams {
  std::string reduction = "mean";
  std::optional<std::vector<double>> weight;
  std::int64_t ignore_index = -100;
};

template <class Params>
Spec& add_class_index_loss(Spec& s, const char* pred, const char* label) {
  add_loss_params<Params>(s, pred, Form::any, 0);
  return add_label_key<Params>(s, label)
      .param("weight", &Params::weight, "By class; null: 1 each.")
      .param("ignore_index", &Params::ignore_index, "A label that does not count.")
      .param("reduction", &Params::reduction,
             "Over samples; the mean is weighted by the weight of each sample's class.")
      .choices({"mean", "sum"})
      .couples()
      .when("reduction", "sum")
      .couples()
      .when("weight")
      .couples()
      .unless("ignore_index", -100)
      .takes("@label_key", Form::any, 0);
}

template <class P>
class ClassIndexLoss : public LossOf<P> {
 public:
  using LossOf<P>::p;

 protected:
  using Weight = std::optional<at::Tensor>;
  // `target`: classes of any integer type, or probabilities.
  virtual at::Tensor of(const at::Tensor& pred, const at::Tensor& target, const Weight& weight,
                        std::int64_t reduction) const = 0;
  // As LibTorch takes them.
  static at::Tensor as_indices(const at::Tensor& target) {
    return target.is_floating_point() ? target : target.to(at::kLong);
  }
  // Whether the truth may be probabilities of the output's shape.
  virtual bool takes_probabilities() const { return false; }

 private:
  bool weighted() const final { return p.weight.has_value(); }

  at::Tensor loss(const at::Tensor& pred, const Firing& f) const final {
    const at::Tensor label = this->on_grid(pred, f.in(), p.label_key);
    Weight weight;
    if (p.weight)
      weight = at::tensor(*p.weight).to(pred.options().requires_grad(false), /*non_blocking=*/true);
    at::Tensor target = label;
    if (f.stream() && !label.is_floating_point()) {  // LibTorch would stop the device for these
      target = as_indices(label);
      target = target.masked_fill(no_classes(target, pred.size(1)), p.ignore_index);
    }
    return of(pred, target, weight,
              p.reduction == "mean"   ? at::Reduction::Mean
              : p.reduction == "none" ? at::Reduction::None
                                      : at::Reduction::Sum);
  }

  void check(const at::Tensor& pred, Firing& f) const final {
    const Field& field = f.in().at(p.label_key);
    const at::Tensor label = this->on_grid(pred, f.in(), p.label_key);
    auto wanted = pred.sizes().vec();
    if (wanted.size() < 2)
      throw DataError("\"" + p.key[0] + "\" " + c10::str(pred.sizes()) + " is no [N, C, ...]");
    const std::int64_t classes = wanted[1];
    if (p.weight && static_cast<std::int64_t>(p.weight->size()) != classes)
      throw Error(Exit::usage, "weight has " + std::to_string(p.weight->size()) + " values for " +
                                   std::to_string(classes) + " classes");
    const bool is_probability =
        takes_probabilities() && label.is_floating_point() && label.sizes() == pred.sizes();
    if (is_probability) return;
    wanted.erase(wanted.begin() + 1);
    if (label.sizes() != at::IntArrayRef(wanted) || label.is_floating_point())
      throw DataError("label " + std::string(label.dtype().name()) + " " + c10::str(label.sizes()) +
                      " does not fit the output " + c10::str(pred.sizes()));
    f.when_done([this, &f, &field, classes] { check_classes(f.in(), field, classes); });
  }

  at::Tensor no_classes(const at::Tensor& label, std::int64_t classes) const {
    const at::Tensor target = as_indices(label);  // ignore_index need not be one of its type
    return target.lt(0).logical_or_(target.ge(classes)).logical_and_(target.ne(p.ignore_index));
  }

  void check_classes(const Sample& sample, const Field& label, std::int64_t classes) const {
    const at::Tensor& t = label.tensor;
    if (!t.device().is_cpu() && !no_classes(t, classes).any().template item<bool>()) return;
    const at::Tensor values = t.to(at::kCPU, at::kLong).contiguous();
    const std::int64_t* v = values.const_data_ptr<std::int64_t>();
    const std::int64_t each = values.numel() / std::max<std::int64_t>(1, values.size(0));
    for (std::int64_t i = 0; i < values.numel(); ++i)
      if ((v[i] < 0 || v[i] >= classes) && v[i] != p.ignore_index)
        throw bad_label(sample, label, i / each, std::to_string(v[i]), classes);
  }
};

}  // namespace sluice
