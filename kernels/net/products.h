// Products of matrices that LibTorch has no call for.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

// a b in float32, for a [N, K], b [K, M]: either may be a transposed view. Of bfloat16 the product
// is summed without a rounding to bfloat16, where MKL has one.
at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b);

// sum += a^T b in float32, for a [N, out], b [N, in]; where `sum` is undefined it becomes a^T b.
// As above, and added without a rounding too.
void add_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& sum);

}  // namespace sluice
