// Softmax, Dice and cross entropy in two passes over the logits (softmax_sums.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/loss/softmax_sums.h"

namespace sluice {

class FusedDiceCe {
 public:
  FusedDiceCe(const at::Tensor& logits, const at::Tensor& label, const kernels::DiceCeRule& r);
  at::Tensor loss() const;
  // The gradient by the logits, in their layout.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const;

 private:
  SoftmaxSums sums_;
  std::vector<kernels::DiceCeSlopes> slopes_;  // [groups]
  kernels::DiceCeTotal total_;
  int classes_;
};

}  // namespace sluice
