#include "kernels/net/sparsity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "kernels/net/conv_step.h"

namespace sluice {
namespace {

// [out, in, taps] of either kind of convolution, and back to the weight's own shape.
at::Tensor by_output(const at::Tensor& weight, bool transposed) {
  const at::Tensor flat = weight.detach().flatten(2);
  return transposed ? flat.transpose(0, 1) : flat;
}
at::Tensor as_weight(const at::Tensor& mask, const at::Tensor& weight, bool transposed) {
  return (transposed ? mask.transpose(0, 1) : mask).contiguous().view(weight.sizes());
}

std::int64_t rounded_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

// Ones at each row's `count` largest numbers; of equal ones the first.
at::Tensor largest(const at::Tensor& rows, std::int64_t count) {
  const at::Tensor order = std::get<1>(at::sort(rows, /*stable=*/true, /*dim=*/1, true));
  return at::zeros_like(rows, at::kByte).scatter_(1, order.narrow(1, 0, count), 1);
}

at::Tensor vectors(const at::Tensor& w, double keep) {
  const std::int64_t out = w.size(0), in = w.size(1), taps = w.size(2);
  const std::int64_t blocks = rounded_up(out, 16) / 16, pairs = rounded_up(in, 2) / 2;
  at::Tensor padded = at::zeros({16 * blocks, 2 * pairs, taps}, w.options().dtype(at::kDouble));
  padded.narrow(0, 0, out).narrow(1, 0, in).copy_(w.abs());
  const at::Tensor sums = padded.view({blocks, 16, pairs, 2, taps}).sum({1, 3});
  const std::int64_t all = sums.numel();
  const auto count = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(keep * static_cast<double>(all) + 0.5), 1, all);
  return largest(sums.view({1, all}), count)
      .view({blocks, 1, pairs, 1, taps})
      .expand({blocks, 16, pairs, 2, taps})
      .reshape(padded.sizes())
      .narrow(0, 0, out)
      .narrow(1, 0, in);
}

at::Tensor two_of_four(const at::Tensor& w) {
  const at::Tensor last = w.abs().transpose(1, 2).contiguous();  // [out, taps, in]
  return largest(last.view({-1, 4}), 2).view(last.sizes()).transpose(1, 2);
}

}  // namespace

bool fits(const ConvSpec& spec, const Sparsity& rule) {
  if (spec.groups != 1) return false;
  if (rule.pattern == Sparsity::Pattern::vector) return spec.out >= 16 && spec.in >= 8;
  return rule.pattern == Sparsity::Pattern::two_of_four && spec.in % 4 == 0;
}

Sparse sparse_weights(const Net& net, const Sparsity& rule) {
  Sparse all;
  std::set<int> seen;
  for (const auto& step : net.steps) {
    const auto* conv = dynamic_cast<const ConvStep*>(step.get());
    if (!conv || !seen.insert(conv->weight).second) continue;
    if (fits(conv->spec, rule))
      all.weights.push_back({conv->weight, conv->spec});
    else
      ++all.dense;
  }
  return all;
}

at::Tensor sparsity_mask(const at::Tensor& weight, const ConvSpec& spec, const Sparsity& rule) {
  const at::Tensor w = by_output(weight, spec.transposed);
  const bool in_fours = rule.pattern == Sparsity::Pattern::two_of_four;
  return as_weight(in_fours ? two_of_four(w) : vectors(w, rule.keep), weight, spec.transposed);
}

}  // namespace sluice
