// The optimizers' steps, one weight after the other, by the functor alone: what the kernels of host
// and device are held against.
#pragma once

#include <vector>

#include "kernels/optim/optim_value.h"

namespace sluice::test {

struct OptimByFunctor {
  using Numbers = std::vector<float>;
  struct Tensor {
    Numbers weight, first, second, third;
    std::int64_t since = 0;
  };
  std::vector<Tensor> tensors;
  kernels::OptimState state;
  double lr = 0.01, weight_decay = 0.1;

  void add(const Numbers& weight, std::int64_t since = 0) {
    const std::size_t n = weight.size();
    tensors.push_back({weight, Numbers(n), Numbers(n), Numbers(n), since});
  }

  void step(const kernels::OptimRule& r, const std::vector<Numbers>& grads) {
    using namespace kernels;
    double all = 0;
    for (const Numbers& g : grads) all += squares(g);
    decide(r, all, state);
    if (state.skip) return;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Tensor& t = tensors[i];
      const std::size_t n = t.weight.size();
      float scale = 1;
      const bool by_norm = r.kind == OptimKind::novograd;
      const auto norm_scale = [&](double all) {
        return novograd_scale(r, all, t.second.data(), r.amsgrad ? t.third.data() : nullptr);
      };
      if (by_norm && !r.measures()) scale = norm_scale(plain_squares(state, squares(grads[i])));
      if (r.measures()) {
        const OptimValue v = OptimValue::of(r, state, lr, weight_decay, 1, t.since);
        Numbers along(n);
        for (std::size_t k = 0; k < n; ++k) {
          along[k] = v.plain<OneNumber>(grads[i][k]);
          if (r.kind != OptimKind::lamb) continue;
          v.moments<OneNumber>(along[k], t.first[k], t.second[k]);
          along[k] = v.direction<OneNumber>(t.weight[k], t.first[k], t.second[k]);
        }
        scale = by_norm ? norm_scale(squares(along))
                        : trust_ratio(r, squares(t.weight), squares(along), weight_decay);
      }
      const OptimValue v = OptimValue::of(r, state, lr, weight_decay, scale, t.since);
      for (std::size_t k = 0; k < n; ++k)
        t.weight[k] =
            v.updated<OneNumber>(t.weight[k], grads[i][k], t.first[k], t.second[k], t.third[k]);
    }
  }

  static double squares(const Numbers& numbers) {
    double sum = 0;
    for (const double x : numbers) sum += x * x;
    return sum;
  }
};

// Every kind, each with other settings.
inline std::vector<kernels::OptimRule> optim_rules() {
  std::vector<kernels::OptimRule> rules;
  for (int k = 0; k <= static_cast<int>(kernels::OptimKind::lamb); ++k) {
    kernels::OptimRule r;
    r.kind = static_cast<kernels::OptimKind>(k);
    r.momentum = 0.9, r.nesterov = true, r.max_value = 0.8;
    r.decoupled = k % 2 == 0, r.amsgrad = r.centered = k % 3 == 1;
    r.max_norm = k % 4 == 1 ? 3 : 0;
    r.momentum_decay = 0.004, r.lr_decay = 0.1;
    if (r.kind == kernels::OptimKind::asgd) r.lambd = 0.1, r.t0 = 1;
    if (r.kind == kernels::OptimKind::radam) r.beta2 = 0.9;  // rectified from the third step on
    rules.push_back(r);
  }
  return rules;
}

}  // namespace sluice::test
