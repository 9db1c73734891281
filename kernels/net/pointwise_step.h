// Steps that treat every number alike: ReLU alone, sum.
#pragma once

#include "kernels/net/net.h"

namespace sluice {

// Of what it gives backward knows what was not above zero: the sum before it, of a block with a
// residual, need not stay beside it.
struct ReluStep final : Step {
  ReluStep() { keeps_output = true; }
  std::string kind() const override { return "relu"; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

struct AddStep final : Step {
  std::string kind() const override { return "add"; }
  bool shares_grad(std::size_t) const override { return true; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

}  // namespace sluice
