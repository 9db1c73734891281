// Sums over voxels of a softmax's probabilities and their gradient, in two passes over the logits;
// the probabilities are computed twice and never stored.
//
// Invariant: a voxel's work is the same in both passes, block by block of so many voxels.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/loss/dice_ce_voxel.h"

namespace sluice {

inline constexpr std::int64_t softmax_block = 512;  // voxels

class SoftmaxSums {
 public:
  // logits [N, C, ...] float32, label [N, 1, ...] of class numbers. Of the rule: batch,
  // squared_pred and ce_weight.
  SoftmaxSums(const at::Tensor& logits, const at::Tensor& label, const kernels::DiceCeRule& r);
  int groups() const { return r_.batch ? 1 : static_cast<int>(n_); }
  // [groups][3 C + 1]: P, I and T by class, then the cross entropy.
  std::vector<double> sums() const;
  // The gradient by the logits, in their layout, from the slopes [groups] of P and I and that of
  // the cross entropy.
  at::Tensor gradient(const std::vector<kernels::DiceCeSlopes>& slopes, double ce) const;

 private:
  // A block's logits, probabilities or gradients, class by class: v[c * softmax_block + i].
  struct Buffer {
    alignas(64) float v[kernels::dice_classes * softmax_block];
    alignas(64) float label[softmax_block], weight[softmax_block];
  };
  template <class F>
  void each_block(const F& body) const;

  kernels::DiceCeRule r_;
  at::Tensor logits_;  // dense, [N, C, ...] contiguous or channels-last
  at::Tensor label_;   // uint8, [N, voxels]
  std::int64_t n_ = 0, classes_ = 0, voxels_ = 0, class_stride_ = 0, voxel_stride_ = 0;
  std::vector<float> weight_;  // of the cross entropy, by what a label may hold: [256]
};

}  // namespace sluice
