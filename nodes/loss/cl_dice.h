// Dice of soft skeletons (centrelines).
#pragma once

#include "nodes/loss/term_loss.h"

namespace sluice {

struct ClDiceTerm {
  std::int64_t iter = 3;
  double smooth_nr = 1, smooth_dr = 1, smooth = 1e-4;
};

template <class P>
Spec& add_cl_dice_term(Spec& s, ClDiceTerm P::*term) {
  param_of(s, "iter_", term, &ClDiceTerm::iter, "Rounds of thinning.").at_least(0);
  param_of(s, "smooth", term, &ClDiceTerm::smooth, "Added to the last denominator.").above(0);
  return add_smoothing(s, term);
}

// The greatest within `extents` voxels around each, [N, C, ...].
inline at::Tensor greatest(const at::Tensor& x, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> one(extents.size(), 1), padding;
  for (const std::int64_t k : extents) padding.push_back(k / 2);
  if (extents.size() == 1) return at::max_pool1d(x, extents, one, padding);
  return extents.size() == 3 ? at::max_pool3d(x, extents, one, padding)
                             : at::max_pool2d(x, extents, one, padding);
}

inline at::Tensor eroded(const at::Tensor& x) {
  const at::Tensor turned = -x;  // once: each pool keeps what it is of
  at::Tensor most;
  for (std::int64_t d = 2; d < x.dim(); ++d) {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(x.dim() - 2), 1);
    extents[static_cast<std::size_t>(d - 2)] = 3;
    const at::Tensor along = greatest(turned, extents);
    most = most.defined() ? at::max(most, along) : along;
  }
  return -most;
}

inline at::Tensor soft_skeleton(at::Tensor x, std::int64_t rounds) {
  const std::vector<std::int64_t> cube(static_cast<std::size_t>(x.dim() - 2), 3);
  at::Tensor skeleton;
  for (std::int64_t i = 0; i <= rounds; ++i) {
    const at::Tensor smaller = eroded(x), lost = at::relu(x - greatest(smaller, cube));
    skeleton = i == 0 ? lost : skeleton + at::relu(lost - skeleton * lost);
    x = smaller;
  }
  return skeleton;
}

inline at::Tensor cl_dice(const Target& t, const ClDiceTerm& p) {
  const auto total = [&](const at::Tensor& x) {
    return t.options.batch ? x.sum() : x.flatten(1).sum(1);
  };
  const auto inside = [&](const at::Tensor& skeleton, const at::Tensor& x) {
    return (total(skeleton * x) + p.smooth_nr) / (total(skeleton) + p.smooth_dr);
  };
  // The truth's first, while nothing is kept for the backward pass.
  const at::Tensor sensitivity = inside(soft_skeleton(t.truth(), p.iter), t.prob());
  const at::Tensor precision = inside(soft_skeleton(t.prob(), p.iter), t.truth());
  return t.reduce(1 - 2 * precision * sensitivity / (precision + sensitivity + p.smooth));
}

}  // namespace sluice
