// Any function of LibTorch as a step. Its backward is LibTorch's: autograd records the function
// while the frame's forward pass runs, and is asked for that record's gradients alone.
#pragma once

#include "kernels/net/net.h"
#include "kernels/net/value.h"

namespace sluice {

struct TorchStep final : Step {
  std::string function_name;
  TorchFunction function;
  std::vector<int> weights;
  std::vector<Size> weight_sizes;
  Attributes given;
  std::string kind() const override { return function_name; }
  Attributes attributes() const override { return given; }
  std::vector<int> parameters() const override { return weights; }
  // Asks the function itself, once for a size: with tensors without memory, where it can do that.
  Size output_size(const std::vector<Size>& in) const override;
  bool records() const override { return true; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  bool wanted(const Frame& f, std::size_t argument) const;
};

}  // namespace sluice
