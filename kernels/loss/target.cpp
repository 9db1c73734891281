#include "kernels/loss/target.h"

#include <ATen/ATen.h>

#include "kernels/image/one_hot.h"

namespace sluice {
namespace {

at::Tensor activated(const at::Tensor& x, const std::string& name) {
  if (name == "relu") return at::relu(x);
  if (name == "elu") return at::elu(x);
  if (name == "softplus") return at::softplus(x);
  return at::tanh(x);
}

}  // namespace

const at::Tensor& Target::logits() const {
  if (!logits_.defined())
    logits_ = pred.to(pred.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return logits_;
}

at::Tensor Target::counted_logits() const {
  return first() ? logits().narrow(1, 1, counted()) : logits();
}

const at::Tensor& Target::prob() const {
  if (prob_.defined()) return prob_;
  prob_ = options.sigmoid ? at::sigmoid(logits()) : logits();
  if (options.softmax && classes() > 1) prob_ = at::softmax(logits(), 1);
  if (options.other_act) prob_ = activated(logits(), *options.other_act);
  if (first()) prob_ = prob_.narrow(1, 1, counted());
  if (mask.defined()) prob_ = prob_ * mask;
  if (options.ignore_index) prob_ = prob_ * counts();
  return prob_;
}

const at::Tensor& Target::truth() const {
  if (truth_.defined()) return truth_;
  const at::ScalarType type = logits().scalar_type();
  truth_ = options.to_onehot_y && classes() > 1 ? one_hot(truncated(known_label()), classes(), type)
                                                : channels().to(type);
  if (first()) truth_ = truth_.narrow(1, 1, counted());
  if (options.ignore_index) truth_ = truth_ * counts();
  return truth_;
}

at::Tensor Target::counts() const {
  const std::int64_t ignored = *options.ignore_index;
  const at::ScalarType type = logits().scalar_type();
  if (label.size(1) == 1) return label.ne(ignored).to(type);
  if (ignored >= 0 && ignored < label.size(1)) return 1 - label.narrow(1, ignored, 1).to(type);
  return label.sum(1, true).gt(0).to(type);
}

at::Tensor Target::channels() const {
  return label.size(1) > classes() ? label.narrow(1, 0, classes()) : label;
}

at::Tensor Target::known_label() const {
  if (!options.ignore_index || label.size(1) > classes()) return channels();
  return label.masked_fill(label.eq(*options.ignore_index), 0);
}

at::Tensor Target::overlap() const {
  if (!options.soft_label) return sum(prob() * truth());
  return (mass(prob()) + mass(truth()) - sum((prob() - truth()).abs())) / 2;
}

at::Tensor Target::mass(const at::Tensor& x) const { return sum(options.soft_label ? x.abs() : x); }

at::Tensor Target::sum(const at::Tensor& x) const {
  std::vector<std::int64_t> dims;
  if (options.batch) dims.push_back(0);
  for (std::int64_t d = 2; d < pred.dim(); ++d) dims.push_back(d);
  return x.sum(dims);
}

at::Tensor Target::reduce(const at::Tensor& by_class) const {
  if (options.reduction == Reduce::none) {
    std::vector<std::int64_t> shape = by_class.sizes().vec();
    if (!options.batch && shape.size() == 1) shape.push_back(1);  // of all classes at once
    shape.resize(static_cast<std::size_t>(pred.dim()) - (options.batch ? 1 : 0), 1);
    return by_class.reshape(shape);
  }
  return mean() ? by_class.mean() : by_class.sum();
}

std::vector<double> Target::weights() const {
  if (!options.weight || options.weight->size() != 1)
    return options.weight.value_or(std::vector<double>{});
  return std::vector<double>(static_cast<std::size_t>(classes()), options.weight->front());
}

std::vector<double> Target::counted_weights() const {
  std::vector<double> w = weights();
  if (std::ssize(w) > counted()) w.erase(w.begin(), w.end() - counted());
  return w;
}

at::Tensor weight_tensor(const std::vector<double>& weights, const at::Tensor& like) {
  return at::tensor(weights, at::kDouble).to(like.options(), /*non_blocking=*/true);
}

at::Tensor truncated(const at::Tensor& label) {
  return label.is_floating_point() ? label.trunc() : label;
}

std::optional<BadLabel> find_bad_label(const at::Tensor& label, std::int64_t classes) {
  const auto [low, high] = at::aminmax(label.detach());
  const double top = static_cast<double>(classes);
  if (low.item<double>() >= 0 && high.item<double>() < top) return std::nullopt;
  const at::Tensor values = label.to(at::kCPU, at::kDouble).contiguous();
  const double* v = values.const_data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    if (!(v[i] >= 0 && v[i] < top)) return BadLabel{i / (values.numel() / values.size(0)), v[i]};
  return std::nullopt;
}

}  // namespace sluice
