#include "kernels/loss/sum_of_terms.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/base/autograd.h"

namespace sluice {

at::Tensor sum_of_terms(const at::Tensor& x, const std::vector<LossTerm>& terms) {
  const bool wanted = at::GradMode::is_enabled() && x.requires_grad();
  const at::Tensor leaf = x.detach().requires_grad_(wanted);
  at::Tensor sum, gradient;
  for (const LossTerm& term : terms) {
    at::Tensor value = term(leaf);
    if (wanted) {
      at::Tensor by_x = torch::autograd::grad({value}, {leaf})[0];
      gradient = gradient.defined() ? gradient.add_(by_x) : by_x;
      value = value.detach();
    }
    sum = sum.defined() ? sum + value : value;
  }
  attach("SumOfTermsBackward", {sum}, {x}, MadeGradient{gradient});
  return sum;
}

}  // namespace sluice
