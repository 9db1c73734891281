// Numbers of no pattern, and an operation's gradients held against central differences.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

namespace sluice {

inline at::Tensor row(std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return at::tensor(values, at::kDouble).view({1, 1, n});
}

inline double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a.flatten() - b.flatten()).abs().max().item<double>();
}

inline at::Tensor wave(at::IntArrayRef shape, double pace) {
  return at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * pace + 0.3).view(shape);
}

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// The largest difference of the tape's gradients from central differences, per input.
inline double gradient_error(const Operation& of, std::vector<at::Tensor> inputs) {
  for (at::Tensor& t : inputs) t = t.detach().clone().requires_grad_();
  const at::Tensor out = of(inputs), weight = wave(out.sizes(), 1.7);
  const auto grads = torch::autograd::grad({out}, inputs, {weight}, {}, false, true);
  double worst = 0;
  const c10::NoGradGuard no_grad;
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    at::Tensor flat = inputs[n].view(-1);
    const at::Tensor grad = grads[n].reshape(-1);
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const double x = flat[i].item<double>(), h = 1e-5;
      flat[i] = x + h;
      const double up = (of(inputs) * weight).sum().item<double>();
      flat[i] = x - h;
      const double down = (of(inputs) * weight).sum().item<double>();
      flat[i] = x;
      worst = std::max(worst, std::abs((up - down) / (2 * h) - grad[i].item<double>()));
    }
  }
  return worst;
}

}  // namespace sluice
