#include "kernels/loss/target.h"

#include <ATen/ATen.h>

#include "kernels/image/one_hot.h"

namespace sluice {

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
  if (first()) prob_ = prob_.narrow(1, 1, counted());
  return prob_;
}

const at::Tensor& Target::truth() const {
  if (truth_.defined()) return truth_;
  const at::ScalarType type = logits().scalar_type();
  truth_ = options.to_onehot_y && classes() > 1 ? one_hot(truncated(label), classes(), type)
                                                : label.to(type);
  if (first()) truth_ = truth_.narrow(1, 1, counted());
  return truth_;
}

at::Tensor Target::sum(const at::Tensor& x) const {
  std::vector<std::int64_t> dims;
  if (options.batch) dims.push_back(0);
  for (std::int64_t d = 2; d < pred.dim(); ++d) dims.push_back(d);
  return x.sum(dims);
}

at::Tensor Target::reduce(const at::Tensor& by_class) const {
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
