// A result of our own on LibTorch's tape: what was computed without the tape says its gradients.
//
//   struct Saved {                                                   // of the forward pass
//     std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads);  // one per input
//   };
//   attach("DiceCeBackward", {loss}, {pred}, Saved{...});
//
// Where Saved has `last_backward(grads)` too, that is asked instead when nothing comes after it: it
// may write over what was saved.
//
// Invariant: what was saved lives until the backward pass has run once, unless the graph is
// retained.
#pragma once

#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

template <class Saved>
struct TapeNode final : torch::autograd::Node {
  std::string label;
  std::optional<Saved> saved;
  bool is_last = false;

  std::string name() const override { return label; }
  std::vector<at::Tensor> apply(std::vector<at::Tensor>&& grads) override {
    TORCH_CHECK(saved, label, ": backward a second time");
    if constexpr (requires { saved->last_backward(grads); })
      if (is_last) return saved->last_backward(grads);
    return saved->backward(grads);
  }
  void will_release_variables() override { is_last = true; }
  void release_variables() override { saved.reset(); }
};

// The gradients of `results` go to `inputs` by saved.backward(); nothing is done where no input
// needs a gradient.
template <class Saved>
void attach(const char* name, std::vector<at::Tensor> results, std::vector<at::Tensor> inputs,
            Saved saved) {
  if (!at::GradMode::is_enabled() || !torch::autograd::any_variable_requires_grad(inputs)) return;
  auto node = std::shared_ptr<TapeNode<Saved>>(new TapeNode<Saved>, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  node->label = name;
  node->saved = std::move(saved);
  torch::autograd::set_history(results, node);
}

// Of results that are sums over the one input, where the gradient by its numbers was made along
// with them.
struct MadeGradient {
  at::Tensor gradient;           // what a number adds to the sum that it is part of, like the input
  at::DimVector spread_as = {};  // the sums' sizes beside the input's; none: they are one
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    return {gradient.mul(grads[0].reshape(spread_as))};
  }
  std::vector<at::Tensor> last_backward(const std::vector<at::Tensor>& grads) const {
    return {gradient.mul_(grads[0].reshape(spread_as))};
  }
};

}  // namespace sluice
