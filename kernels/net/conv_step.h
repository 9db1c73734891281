// Convolution or transposed convolution, plus a residual where inputs[1] exists.
#pragma once

#include <optional>
#include <utility>

#include "kernels/net/conv_spec.h"
#include "kernels/net/direct_conv.h"
#include "kernels/net/net.h"

namespace sluice {

struct ConvStep final : Step {
  ConvSpec spec;
  int weight = -1;
  int bias = -1;         // computed with
  int silent_bias = -1;  // not computed with; its gradient is zero
  bool normed = false;   // a norm may take the bias away again (ConvOptions)
  std::string kind() const override { return spec.transposed ? "conv_transposed" : "conv"; }
  Attributes attributes() const override;
  std::vector<int> parameters() const override;
  std::shared_ptr<const void> prepare(const Preparation& pass) const override;
  // A DataError where the kernel does not fit into the image.
  Size output_size(const std::vector<Size>& in) const override;
  Product product(const Size& input) const override;
  bool shares_grad(std::size_t input) const override { return input == 1; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  at::Tensor residual(const Frame& f) const {
    return inputs.size() > 1 ? f.values[inputs[1]] : at::Tensor();
  }
  // The weight as products of matrices take it.
  at::Tensor matrix(const Frame& f) const;
  // A direct convolution into y, or its adjoint.
  void gather(const Frame& f, bool adjoint, const at::Tensor& x, const at::Tensor& b,
              const at::Tensor& residual, at::Tensor& y) const;
};

// t, dense in a layout, with that layout's own strides. What has one channel is dense in all of
// them, and cuDNN's callers read the layout from the strides: with others, such a convolution would
// be done in another layout and its result be moved.
at::Tensor as_laid_out(const at::Tensor& t, at::MemoryFormat layout);

// `weight` of a convolution, or of a transposed one, with zeros where its sides have fewer than
// eight channels. NVIDIA's tensor cores take 16-bit numbers in eights; for others cuDNN has kernels
// that take several times as long.
at::Tensor filled_up(const at::Tensor& weight);

// LibTorch's convolution and its gradients (of x where that is wanted, of the weight where that
// trains) with a weight that may be filled_up(); x, grad and what comes out have the channels of
// `spec`.
at::Tensor filled_convolution(const at::Tensor& x, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias, const ConvSpec& spec);
std::pair<at::Tensor, at::Tensor> filled_convolution_backward(const at::Tensor& grad,
                                                              const at::Tensor& x,
                                                              const at::Tensor& weight,
                                                              const ConvSpec& spec, bool wanted,
                                                              bool trains = true);

// LibTorch's convolution, in the type of x; weight and bias may have another. In 16 bits images no
// wider than four voxels are computed in float32 on the host, and rounded.
at::Tensor torch_convolution(const at::Tensor& x, const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias, const ConvSpec& spec);

}  // namespace sluice
