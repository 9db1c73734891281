// Depthwise convolutions: each channel by a kernel of its own, so 16 channels of a position fill a
// vector and are weighed lane by lane. Computed in float32, from and to channels-last images.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/net/conv_spec.h"
#include "kernels/net/direct_conv_micro.h"

namespace sluice {

// One output channel for each input channel, enough of them to fill a vector.
bool is_depthwise(const ConvSpec& spec);

// As Gather (direct_conv.h).
class DepthwiseGather {
 public:
  DepthwiseGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
                  at::ScalarType type);
  void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
           at::Tensor& out) const;

 private:
  template <class T, class O>
  void run_all(const at::Tensor& in, const float* bias, const at::Tensor& residual,
               at::Tensor& out) const;

  Products products_;
  at::ScalarType type_;
  std::int64_t channels_;
  bool transposed_;
  Size3 stride_, kernel_, pad_;
  at::Tensor weights_;  // [tap][channel]
};

// As direct_weight_grad().
at::Tensor depthwise_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                                 Products products);

}  // namespace sluice
