#include "kernels/dice_ce.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "kernels/dice_ce_fused.h"

namespace sluice {
namespace {

// ---- in LibTorch's operations -------------------------------------------------------------------

at::Tensor weight_tensor(const std::vector<double>& w, std::int64_t n, const at::Tensor& like) {
  std::vector<double> values = w.size() == 1 ? std::vector<double>(n, w[0]) : w;
  return at::tensor(values, at::kDouble).to(like.options());
}

at::Tensor indices(const at::Tensor& label) { return label.select(1, 0).to(at::kLong); }

at::Tensor composed_dice(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  const std::int64_t classes = pred.size(1);
  at::Tensor prob = p.sigmoid ? at::sigmoid(pred) : pred;
  if (p.softmax && classes > 1) prob = at::softmax(pred, 1);
  at::Tensor target = label;
  if (p.to_onehot_y && classes > 1) target = at::one_hot(indices(label), classes).movedim(-1, 1);
  target = target.to(prob.scalar_type());
  if (!p.include_background && classes > 1) {
    prob = prob.narrow(1, 1, classes - 1);
    target = target.narrow(1, 1, classes - 1);
  }
  std::vector<std::int64_t> dims;
  if (p.batch) dims.push_back(0);
  for (std::int64_t d = 2; d < pred.dim(); ++d) dims.push_back(d);
  const at::Tensor both = (prob * target).sum(dims);
  const at::Tensor ps = (p.squared_pred ? prob * prob : prob).sum(dims);
  const at::Tensor ts = (p.squared_pred ? target * target : target).sum(dims);
  const at::Tensor area = p.jaccard ? 2 * (ps + ts - both) : ps + ts;
  at::Tensor f = 1 - (2 * both + p.smooth_nr) / (area + p.smooth_dr);
  if (!p.dice_weight.empty() && prob.size(1) > 1)
    f = f * weight_tensor(p.dice_weight, prob.size(1), f);
  return p.mean ? f.mean() : f.sum();
}

at::Tensor composed_ce(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  const auto reduction = p.mean ? at::Reduction::Mean : at::Reduction::Sum;
  std::optional<at::Tensor> weight;
  if (!p.ce_weight.empty()) weight = weight_tensor(p.ce_weight, pred.size(1), pred);
  if (pred.size(1) == 1)
    return at::binary_cross_entropy_with_logits(pred, label.to(pred.scalar_type()), {}, weight,
                                                reduction);
  const at::Tensor target = label.size(1) == 1 ? indices(label) : label.to(pred.scalar_type());
  return at::cross_entropy_loss(pred, target, weight, reduction);
}

// ---- fused --------------------------------------------------------------------------------------

bool can_fuse(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  return p.softmax && p.to_onehot_y && pred.size(1) > 1 && pred.size(1) <= fused_classes &&
         label.size(1) == 1 && pred.device().is_cpu() && pred.scalar_type() == at::kFloat;
}

struct DiceCeBackward final : torch::autograd::Node {
  FusedDiceCe fused;
  std::string name() const override { return "DiceCeBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    return {fused.gradient(grads[0].item<double>())};
  }
  void release_variables() override { fused = {}; }
};

}  // namespace

at::Tensor dice_ce(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  if (!can_fuse(pred, label, p)) {
    const at::Tensor x = pred.to(pred.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    at::Tensor loss = p.lambda_dice * composed_dice(x, label, p);
    if (p.lambda_ce != 0) loss = loss + p.lambda_ce * composed_ce(x, label, p);
    return loss;
  }
  FusedDiceCe fused(pred.detach(), label, p);
  at::Tensor loss = at::full({}, fused.loss(), at::kFloat);
  if (at::GradMode::is_enabled() && pred.requires_grad()) {
    auto node = std::shared_ptr<DiceCeBackward>(new DiceCeBackward, torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(pred));
    node->fused = std::move(fused);
    torch::autograd::set_history(loss, node);
  }
  return loss;
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
