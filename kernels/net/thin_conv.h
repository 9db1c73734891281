// Convolutions between few channels on a CUDA device, in 16 bits: see thin_conv_call.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/net/conv_spec.h"

namespace sluice {

// Of an output of this size, [N, C, ...].
bool thin_conv_fits(const ConvSpec& spec, const std::vector<std::int64_t>& size);

// x [N, C, ...] and `weight` of one 16-bit type, `bias` [C] in float32 or undefined.
at::Tensor thin_conv(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias);
// The gradients of x, and of the weight in float32.
at::Tensor thin_conv_input_grad(const ConvSpec& spec, const at::Tensor& grad,
                                const at::Tensor& weight);
at::Tensor thin_conv_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad);

}  // namespace sluice
