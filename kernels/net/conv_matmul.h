// Convolutions as products of matrices, where few positions meet many weights: the weights are read
// where they stand, while the direct convolutions (direct_conv.h) would spend their time on
// bringing them into another order.
//
//   C = columns of x   [positions, in * kernel]   what each output reads, channel by channel
//   y = C W'           W: the weight as [out, in * kernel]
//   dL/dW = dy' C      dL/dx = (dy W), each column's numbers added where they came from
//
// Images of float32 or bfloat16, channels last; [positions, out] is such an image's memory. The
// products are LibTorch's and MKL's, of the weights' numbers: float32, or bfloat16 where the
// processor has tiles for them (AMX). A residual and gradients may be given to be added.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/net/conv_spec.h"
#include "kernels/net/direct_conv_micro.h"

namespace sluice {

// What an image of `type` and its weights are multiplied as: for few positions weights are not
// rounded, which would take as long as the products.
at::ScalarType matmul_conv_type(at::ScalarType type, Products products, std::int64_t positions);

// Whether it is quicker than a direct convolution for so many outputs' positions, all samples
// together.
bool matmul_conv_pays(const ConvSpec& spec, at::ScalarType type, Products products,
                      std::int64_t positions);

// Weights as PyTorch keeps them, of matmul_conv_type; bias [out] and residual (as the result) may
// be undefined. The result is float32, or x's type where it is `rounded`.
at::Tensor matmul_conv(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, const at::Tensor& residual, bool rounded = false);
// Float32, of numbers multiplied as `type`.
at::Tensor matmul_conv_weight_grad(const ConvSpec& spec, const at::Tensor& x,
                                   const at::Tensor& grad, at::ScalarType type);
// `like`: an image of the wanted size; `added`, of that size too, may be undefined.
at::Tensor matmul_conv_input_grad(const ConvSpec& spec, const at::Tensor& grad,
                                  const at::Tensor& weight, const at::Tensor& like,
                                  const at::Tensor& added);

}  // namespace sluice
