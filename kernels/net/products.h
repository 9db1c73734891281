// Products of matrices that LibTorch has no call for.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

// sum += a^T b in float32, for a [N, out], b [N, in]; where `sum` is undefined it becomes a^T b.
// Of bfloat16 the product is summed, and added, without a rounding to bfloat16, where MKL has one.
void add_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& sum);

}  // namespace sluice
