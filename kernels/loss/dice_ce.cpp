// Dice and cross entropy together: which of its three implementations takes it.
#include <ATen/ATen.h>

#include "kernels/base/autograd.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/loss/class_sums.h"
#include "kernels/loss/dice_ce_fused.h"
#include "kernels/loss/dice_ce_voxel.h"
#include "kernels/loss/terms.h"

namespace sluice {
namespace {

using kernels::DiceCeRule;

at::Tensor composed_dice(const Target& t, const DiceTerm& p) {
  const at::Tensor &prob = t.prob(), &truth = t.truth();
  const at::Tensor both = p.squared_pred ? t.sum(prob * truth) : t.overlap();
  const at::Tensor ps = p.squared_pred ? t.sum(prob * prob) : t.mass(prob);
  const at::Tensor ts = p.squared_pred ? t.sum(truth * truth) : t.mass(truth);
  const at::Tensor area = p.jaccard ? 2 * (ps + ts - both) : ps + ts;
  at::Tensor f = 1 - (2 * both + p.smooth_nr) / (area + p.smooth_dr);
  if (t.options.weight && t.counted() > 1) f = f * weight_tensor(t.counted_weights(), f);
  return t.reduce(f);
}

bool can_fuse(const Target& t) {
  return counts_plainly(t) && t.options.reduction != Reduce::none && t.options.label_smoothing == 0;
}
bool host_takes(const at::Tensor& pred) {
  return pred.device().is_cpu() && pred.scalar_type() == at::kFloat;
}
bool device_takes(const at::Tensor& pred) {
  const auto type = pred.scalar_type();
  return cuda_takes(pred) && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}

DiceCeRule rule_of(const Target& t, const DiceTerm& p, double factor_dice, double factor_ce) {
  DiceCeRule r;
  static_cast<TargetParams&>(r) = t.options;
  static_cast<DiceTerm&>(r) = p;
  r.lambda_dice = factor_dice;
  r.lambda_ce = factor_ce;
  r.classes = static_cast<int>(t.classes());
  if (!t.options.weight) return r;
  const auto all = t.weights(), counted = t.counted_weights();
  for (std::size_t c = 0; c < all.size() && factor_ce != 0; ++c)
    r.ce_weight[c] = static_cast<float>(all[c]);
  for (std::size_t c = 0; c < counted.size() && t.counted() > 1; ++c)
    r.dice_weight[c + static_cast<std::size_t>(t.first())] = counted[c];
  return r;
}

// One forward pass on the device: what the backward pass needs stays there.
struct DeviceDiceCe {
  DiceCeRule rule;
  kernels::DiceCeBatch batch;
  at::Tensor logits, label, workspace;

  DeviceDiceCe(const at::Tensor& pred, const at::Tensor& y, const DiceCeRule& r) : rule(r) {
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
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const CudaCall cuda(logits);
    at::Tensor grad = at::empty_like(logits);
    const at::Tensor scale = grads[0].to(cuda.device, at::kFloat).contiguous();
    cuda.require(cuda.table.dice_ce_backward(rule, batch, workspace.data_ptr(),
                                             scale.const_data_ptr<float>(), grad.data_ptr(),
                                             cuda.stream));
    return {grad};
  }
};

template <class Fused>
at::Tensor fused(const at::Tensor& logits, const at::Tensor& label, const DiceCeRule& r) {
  Fused pass(logits.detach(), label, r);
  at::Tensor loss = pass.loss();
  attach("DiceCeBackward", {loss}, {logits}, std::move(pass));
  return loss;
}

}  // namespace

at::Tensor fused_cross_entropy(const at::Tensor& logits, const at::Tensor& label,
                               const std::vector<double>& weights, bool mean) {
  const std::int64_t classes = logits.dim() > 2 ? logits.size(1) : 0;
  if (classes < 2 || classes > kernels::dice_classes || logits.numel() == 0) return {};
  DiceCeRule r;
  r.lambda_dice = 0;
  r.classes = static_cast<int>(classes);
  r.reduction = mean ? Reduce::mean : Reduce::sum;
  for (std::size_t c = 0; c < weights.size(); ++c) r.ce_weight[c] = static_cast<float>(weights[c]);
  if (device_takes(logits)) return fused<DeviceDiceCe>(logits, label, r);
  if (host_takes(logits)) return fused<FusedDiceCe>(logits, label, r);
  return {};
}

at::Tensor dice_ce(const Target& t, const DiceTerm& p, double factor_dice, double factor_ce) {
  if (can_fuse(t) && device_takes(t.pred))
    return fused<DeviceDiceCe>(t.pred, t.label, rule_of(t, p, factor_dice, factor_ce));
  if (can_fuse(t) && host_takes(t.pred))
    return fused<FusedDiceCe>(t.pred, t.label, rule_of(t, p, factor_dice, factor_ce));
  const at::Tensor loss = factor_dice * composed_dice(t, p);
  return factor_ce != 0 ? loss + factor_ce * cross_entropy(t) : loss;
}

}  // namespace sluice
