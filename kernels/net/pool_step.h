// Pooling over windows, and over everything.
#pragma once

#include "kernels/net/net.h"

namespace sluice {

struct PoolStep final : Step {
  bool max = true;
  Size kernel, stride, padding;
  std::string kind() const override { return max ? "max_pool" : "avg_pool"; }
  Attributes attributes() const override {
    return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
  }
  // A DataError where the window does not fit into the image.
  Size output_size(const std::vector<Size>& in) const override;
  std::int64_t saved_bytes(const Size& output) const override;  // indices of the maxima
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// The gradient upstream of a max pooling whose windows overlap: an offset in the window after the
// other, so its sums have one order. LibTorch's on a CUDA device adds in any.
// grad, indices (of each maximum in its image) [N, C, ...]; `size` is the input's.
at::Tensor max_pool_backward(const at::Tensor& grad, const at::Tensor& indices,
                             at::IntArrayRef size, at::IntArrayRef kernel, at::IntArrayRef stride,
                             at::IntArrayRef padding);

struct GlobalAvgPoolStep final : Step {
  std::string kind() const override { return "global_avg_pool"; }
  Size output_size(const std::vector<Size>& in) const override { return {in[0][0], in[0][1]}; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

}  // namespace sluice
