// A sum of terms of one tensor, each a number. Where a gradient is wanted, each term's is made as
// soon as the term is there, so that what one term keeps for its backward pass is gone before the
// next one begins.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace sluice {

using LossTerm = std::function<at::Tensor(const at::Tensor& x)>;

at::Tensor sum_of_terms(const at::Tensor& x, const std::vector<LossTerm>& terms);

}  // namespace sluice
