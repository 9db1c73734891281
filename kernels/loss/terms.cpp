#include "kernels/loss/terms.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "kernels/loss/class_sums.h"

namespace sluice {
namespace {

constexpr std::int64_t ignored = -100;  // of torch's cross entropy

// What is no class is reported elsewhere, maybe later; LibTorch would stop the device for it.
at::Tensor indices(const Target& t) {
  const at::Tensor label = t.label.select(1, 0);
  const at::Tensor index = label.to(at::kLong).clamp(0, t.classes() - 1);
  return t.options.ignore_index ? index.masked_fill(label.eq(*t.options.ignore_index), ignored)
                                : index;
}

}  // namespace

at::Tensor dice(const Target& t, const DiceTerm& p, double factor) {
  return dice_ce(t, p, factor, 0);
}

at::Tensor cross_entropy(const Target& t) {
  const at::Tensor& x = t.logits();
  const bool binary = t.classes() == 1, index = !binary && t.label.size(1) == 1;
  const bool ignores = t.options.ignore_index.has_value();
  const auto reduction = ignores    ? at::Reduction::None
                         : t.mean() ? at::Reduction::Mean
                                    : at::Reduction::Sum;
  if (index && !ignores && t.options.label_smoothing == 0)
    if (const at::Tensor loss = fused_cross_entropy(x, t.label, t.weights(), t.mean());
        loss.defined())
      return loss;
  std::optional<at::Tensor> weight;
  if (t.options.weight) weight = weight_tensor(t.weights(), x);
  const at::Tensor target = index    ? indices(t)
                            : binary ? t.known_label().to(x.scalar_type())
                                     : t.channels().to(x.scalar_type());
  const at::Tensor loss = binary ? bce_with_logits(x, target, {}, weight, reduction)
                                 : at::cross_entropy_loss(x, target, weight, reduction, ignored,
                                                          t.options.label_smoothing);
  if (!ignores) return loss;
  at::Tensor counts = t.counts().view_as(loss);
  const at::Tensor sum = (loss * counts).sum();
  if (!t.mean()) return sum;
  if (index && weight) counts = counts * weight->take(target.clamp_min(0));
  return sum / counts.sum().clamp_min(std::numeric_limits<float>::epsilon());
}

// What fused.h takes.
bool fuses(const at::Tensor& x, const at::Tensor& y) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat &&
         x.sizes() == y.sizes() && !y.requires_grad();
}

// Of a sum over all values of x.
static at::Tensor reduced(const at::Tensor& sum, const at::Tensor& x, std::int64_t reduction) {
  return reduction == at::Reduction::Sum ? sum : sum / static_cast<double>(x.numel());
}

at::Tensor bce_with_logits(const at::Tensor& x, const at::Tensor& y,
                           const std::optional<at::Tensor>& weight,
                           const std::optional<at::Tensor>& pos_weight, std::int64_t reduction) {
  if (weight || pos_weight || reduction == at::Reduction::None || !fuses(x, y))
    return at::binary_cross_entropy_with_logits(x, y, weight, pos_weight, reduction);
  return reduced(bce_fused(x, y), x, reduction);
}

at::Tensor pair_loss(PairTerm term, const at::Tensor& x, const at::Tensor& y,
                     std::int64_t reduction, double bend) {
  if (reduction != at::Reduction::None && fuses(x, y)) {
    const at::Tensor sum = pair_fused(term, x, y, bend);
    // LibTorch says what is wrong with numbers that are no probabilities.
    if (term != PairTerm::bce || !std::isnan(sum.item<float>())) return reduced(sum, x, reduction);
  }
  switch (term) {
    case PairTerm::l1:
      return at::l1_loss(x, y, reduction);
    case PairTerm::mse:
      return at::mse_loss(x, y, reduction);
    case PairTerm::huber:
      return at::huber_loss(x, y, reduction, bend);
    case PairTerm::smooth_l1:
      return at::smooth_l1_loss(x, y, reduction, bend);
    case PairTerm::bce:
      return at::binary_cross_entropy(x, y, {}, reduction);
  }
  return {};
}

at::Tensor sigmoid_focal(const at::Tensor& x, const at::Tensor& y, const FocalTerm& p) {
  if (fuses(x, y)) return focal_fused(x, y, p.gamma, p.alpha);
  const at::Tensor entropy =
      at::binary_cross_entropy_with_logits(x, y, {}, {}, at::Reduction::None);
  // log(1 - p_t) = log sigmoid(-x) where the truth is 1, log sigmoid(x) where it is 0
  const at::Tensor loss = (at::log_sigmoid(-x * (2 * y - 1)) * p.gamma).exp() * entropy;
  return p.alpha ? loss * (y * *p.alpha + (1 - y) * (1 - *p.alpha)) : loss;
}

at::Tensor focal(const Target& t, const FocalTerm& p) {
  const at::Tensor loss = sigmoid_focal(t.counted_logits(), t.truth(), p);
  return focal_mean(t, t.options.ignore_index ? loss * t.counts() : loss);
}

at::Tensor channel_weights(const std::vector<double>& weights, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = std::ssize(weights);
  return weight_tensor(weights, like).view(shape);
}

at::Tensor focal_mean(const Target& t, at::Tensor loss) {
  if (t.options.weight) loss = loss * channel_weights(t.counted_weights(), loss);
  if (t.options.reduction == Reduce::none) return loss;
  if (t.options.ignore_index) {
    const at::Tensor counts = t.counts();
    const double least = std::numeric_limits<float>::epsilon();
    if (t.mean()) return loss.sum() / counts.sum().clamp_min(least);
    return (loss.flatten(2).sum(2) / counts.flatten(2).sum(2).clamp_min(least)).sum();
  }
  if (t.mean()) return loss.mean();
  return (loss.dim() > 2 ? loss.flatten(2).mean(2) : loss).sum();
}

at::Tensor generalized_dice(const Target& t, const GeneralizedDiceTerm& p) {
  const ClassSums s = class_sums(t);
  at::Tensor w = p.w_type == "uniform"  ? at::ones_like(s.truth)
                 : p.w_type == "simple" ? s.truth.reciprocal()
                                        : (s.truth * s.truth).reciprocal();
  const at::Tensor empty = w.isinf();
  w = w.masked_fill(empty, 0);
  w = at::where(empty, t.options.batch ? w.max() : w.amax(1, true), w);
  const at::Tensor top = 2 * (s.overlap * w).sum(-1) + p.smooth_nr;
  return t.reduce(1 - top / (((s.prob + s.truth) * w).sum(-1) + p.smooth_dr));
}

}  // namespace sluice
