#include "kernels/net/torch_step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace sluice {

Step::Size TorchStep::output_size(const std::vector<Size>& in) const {
  const auto asked = [&](at::Device device) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> t;
    for (const auto* sizes : {&in, &weight_sizes})
      for (const Size& size : *sizes) t.push_back(at::zeros(size, device));
    return function(t).sizes().vec();
  };
  try {
    return asked(at::kMeta);
  } catch (const c10::NotImplementedError&) {  // LibTorch knows this one's size in Python alone
    return asked(at::kCPU);
  }
}

// A function that adds hands on the gradient that it was given, which values or the caller have
// too.
static at::Tensor of_its_own(const at::Tensor& grad) {
  return grad.use_count() > 1 || grad.storage().use_count() > 1 ? grad.clone() : grad;
}

bool TorchStep::wanted(const Frame& f, std::size_t i) const {
  return i < inputs.size() ? f.wants[inputs[i]] : f.trains[weights[i - inputs.size()]];
}

at::Tensor TorchStep::forward(Frame& f) const {
  std::vector<at::Tensor> t;
  for (const int v : inputs) t.push_back(f.values[v]);
  for (const int w : weights) t.push_back(f.weight(w));
  // Leaves of a record of its own, which begins here and ends with the result.
  for (std::size_t i = 0; f.keep && i < t.size(); ++i)
    t[i] = t[i].detach().requires_grad_(wanted(f, i));
  const std::vector<at::Tensor> leaves = t;
  const at::AutoGradMode record(f.keep);
  for (std::size_t i = inputs.size(); i < t.size(); ++i) t[i] = t[i].to(f.net->compute);
  const at::Tensor y = function(t).to(f.net->compute);  // it may have computed in float32
  if (f.keep) {
    f.saved[number] = leaves;
    f.saved[number].push_back(y);
  }
  return f.net->laid_out(y.detach());
}

void TorchStep::backward(Frame& f, const at::Tensor& grad) const {
  const std::vector<at::Tensor> saved = std::move(f.saved[number]);
  if (!saved.back().requires_grad()) return;  // it let no gradient through
  torch::autograd::variable_list leaves;
  for (std::size_t i = 0; i + 1 < saved.size(); ++i)
    if (wanted(f, i)) leaves.push_back(saved[i]);
  const auto grads = torch::autograd::grad({saved.back()}, leaves, {grad}, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  auto g = grads.begin();
  for (std::size_t i = 0; i + 1 < saved.size(); ++i) {
    if (!wanted(f, i)) continue;
    if (g->defined() && i < inputs.size()) f.add_grad(inputs[i], f.net->laid_out(*g));
    if (g->defined() && i >= inputs.size())  // other frames' are added to it
      f.add_parameter_grad(weights[i - inputs.size()], of_its_own(*g));
    ++g;
  }
}

}  // namespace sluice
