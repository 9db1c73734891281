#include "kernels/loss/dice_ce.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "kernels/cuda/cuda_library.h"
#include "kernels/image/one_hot.h"
#include "kernels/loss/dice_ce_fused.h"
#include "kernels/loss/dice_ce_voxel.h"

namespace sluice {
namespace {

// ---- in LibTorch's operations -------------------------------------------------------------------

at::Tensor weight_tensor(const std::vector<double>& w, std::int64_t n, const at::Tensor& like) {
  std::vector<double> values = w.size() == 1 ? std::vector<double>(n, w[0]) : w;
  return at::tensor(values, at::kDouble).to(like.options(), /*non_blocking=*/true);
}

// What is no class is reported elsewhere, maybe later; LibTorch would stop the device for it.
at::Tensor indices(const at::Tensor& label, std::int64_t classes) {
  return label.select(1, 0).to(at::kLong).clamp(0, classes - 1);
}

at::Tensor composed_dice(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  const std::int64_t classes = pred.size(1);
  at::Tensor prob = p.sigmoid ? at::sigmoid(pred) : pred;
  if (p.softmax && classes > 1) prob = at::softmax(pred, 1);
  at::Tensor target = p.to_onehot_y && classes > 1
                          ? one_hot(truncated(label), classes, prob.scalar_type())
                          : label.to(prob.scalar_type());
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
  const at::Tensor target =
      label.size(1) == 1 ? indices(label, pred.size(1)) : label.to(pred.scalar_type());
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

// ---- on a CUDA device ---------------------------------------------------------------------------

bool device_takes(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  const auto t = pred.scalar_type();
  return p.softmax && p.to_onehot_y && pred.size(1) > 1 && pred.size(1) <= kernels::dice_classes &&
         label.size(1) == 1 && cuda_takes(pred) &&
         (t == at::kFloat || t == at::kHalf || t == at::kBFloat16);
}

kernels::DiceCeRule device_rule(const DiceCe& p, std::int64_t classes) {
  kernels::DiceCeRule r;
  r.classes = static_cast<int>(classes);
  r.background = p.include_background;
  r.squared = p.squared_pred;
  r.jaccard = p.jaccard;
  r.batch = p.batch;
  r.mean = p.mean;
  r.smooth_nr = p.smooth_nr;
  r.smooth_dr = p.smooth_dr;
  r.lambda_dice = p.lambda_dice;
  r.lambda_ce = p.lambda_ce;
  const std::int64_t first = p.include_background ? 0 : 1;
  for (std::int64_t c = 0; c < classes; ++c) {
    if (c < static_cast<std::int64_t>(p.ce_weight.size()))
      r.ce_weight[c] = static_cast<float>(p.ce_weight[c]);
    if (!p.dice_weight.empty() && classes - first > 1 && c >= first)
      r.dice_weight[c] =
          static_cast<float>(p.dice_weight[p.dice_weight.size() == 1 ? 0 : c - first]);
  }
  return r;
}

// One forward pass on the device: what the backward pass needs stays there.
struct DeviceDiceCe {
  kernels::DiceCeRule rule;
  kernels::DiceCeBatch batch;
  at::Tensor logits, label, workspace;

  DeviceDiceCe() = default;
  DeviceDiceCe(const at::Tensor& pred, const at::Tensor& y, const DiceCe& p)
      : rule(device_rule(p, pred.size(1))) {
    const auto last =
        pred.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
    const bool channels_last = (pred.dim() == 4 || pred.dim() == 5) && pred.is_contiguous(last);
    logits = channels_last ? pred : pred.contiguous();
    label = y.to(at::kByte).contiguous();
    batch.logits = logits.const_data_ptr();
    batch.label = label.const_data_ptr<std::uint8_t>();
    batch.type = cuda_type(logits);
    batch.samples = logits.size(0);
    batch.voxels = logits.numel() / logits.size(0) / logits.size(1);
    batch.sample_stride = logits.size(1) * batch.voxels;
    batch.class_stride = channels_last ? 1 : batch.voxels;
    batch.voxel_stride = channels_last ? logits.size(1) : 1;
  }
  at::Tensor loss() {
    const CudaCall cuda(logits);
    workspace = cuda.memory(cuda.table.dice_ce_workspace(rule, batch));
    at::Tensor out = at::empty({}, at::dtype(at::kFloat).device(cuda.device));
    cuda.require(
        cuda.table.dice_ce(rule, batch, workspace.data_ptr(), out.data_ptr<float>(), cuda.stream));
    return out;
  }
  at::Tensor gradient(const at::Tensor& grad_loss) const {
    const CudaCall cuda(logits);
    at::Tensor grad = at::empty_like(logits);
    const at::Tensor scale = grad_loss.to(cuda.device, at::kFloat).contiguous();
    cuda.require(cuda.table.dice_ce_backward(rule, batch, workspace.data_ptr(),
                                             scale.const_data_ptr<float>(), grad.data_ptr(),
                                             cuda.stream));
    return grad;
  }
};

struct DeviceDiceCeBackward final : torch::autograd::Node {
  DeviceDiceCe fused;
  std::string name() const override { return "DeviceDiceCeBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    return {fused.gradient(grads[0])};
  }
  void release_variables() override { fused = {}; }
};

// A node of type T, whose `fused` holds the forward pass, behind `loss`.
template <class T, class Fused>
void attach(at::Tensor& loss, const at::Tensor& pred, Fused&& fused) {
  if (!at::GradMode::is_enabled() || !pred.requires_grad()) return;
  auto node = std::shared_ptr<T>(new T, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(pred));
  node->fused = std::forward<Fused>(fused);
  torch::autograd::set_history(loss, node);
}

}  // namespace

at::Tensor dice_ce(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p) {
  if (device_takes(pred, label, p)) {
    DeviceDiceCe fused(pred.detach(), label, p);
    at::Tensor loss = fused.loss();
    attach<DeviceDiceCeBackward>(loss, pred, std::move(fused));
    return loss;
  }
  if (!can_fuse(pred, label, p)) {
    const at::Tensor x = pred.to(pred.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    at::Tensor loss = p.lambda_dice * composed_dice(x, label, p);
    if (p.lambda_ce != 0) loss = loss + p.lambda_ce * composed_ce(x, label, p);
    return loss;
  }
  FusedDiceCe fused(pred.detach(), label, p);
  at::Tensor loss = at::full({}, fused.loss(), at::kFloat);
  attach<DiceCeBackward>(loss, pred, std::move(fused));
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
