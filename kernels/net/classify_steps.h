// The steps that classifiers have and U-Nets lack: ReLU alone, pooling, linear layers.
//
// Invariant: as in steps.h; none of them mixes samples.
#pragma once

#include "kernels/net/program.h"

namespace sluice {

struct ReluStep final : Step {
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// The gradient in front of a max pooling whose windows overlap: an offset in the window after the
// other, so its sums have one order. LibTorch's on a CUDA device adds in any.
// grad, indices (of each maximum in its image) [N, C, ...]; `size` is the input's.
at::Tensor max_pool_backward(const at::Tensor& grad, const at::Tensor& indices,
                             at::IntArrayRef size, at::IntArrayRef kernel, at::IntArrayRef stride,
                             at::IntArrayRef padding);

struct PoolStep final : Step {
  bool max = true;
  Size kernel, stride, padding;
  Size output_size(const std::vector<Size>& in) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

struct GlobalAvgPoolStep final : Step {
  Size output_size(const std::vector<Size>& in) const override { return {in[0][0], in[0][1]}; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

struct LinearStep final : Step {
  std::int64_t out = 1;
  int weight = -1, bias = -1;  // parameters
  Size output_size(const std::vector<Size>& in) const override { return {in[0][0], out}; }
  Product product(const Size& input) const override {
    std::int64_t in = 1;
    for (std::size_t i = 1; i < input.size(); ++i) in *= input[i];
    return {static_cast<double>(input[0] * in * out), in, out};
  }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

}  // namespace sluice
