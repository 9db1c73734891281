// Softmax, Dice and cross entropy in two passes over the logits: one for the sums, one for the
// gradient; the probabilities are computed twice and never stored.
//
// Invariant: a voxel's work is the same in both passes, block by block of `block` voxels.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/loss/dice_ce_voxel.h"

namespace sluice {

inline constexpr std::int64_t fused_block = 512;  // voxels

class FusedDiceCe {
 public:
  FusedDiceCe(const at::Tensor& logits, const at::Tensor& label, const kernels::DiceCeRule& r);
  at::Tensor loss() const;
  // The gradient by the logits, in their layout.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const;

 private:
  // A block's logits, probabilities or gradients, class by class: v[c * fused_block + i].
  struct Buffer {
    alignas(64) float v[kernels::dice_classes * fused_block];
    alignas(64) float label[fused_block], weight[fused_block];
  };
  template <class F>
  void each_block(const F& body) const;
  std::vector<double> sums() const;  // [N or 1][3 C + 1]

  kernels::DiceCeRule r_;
  at::Tensor logits_;  // dense, [N, C, ...] contiguous or channels-last
  at::Tensor label_;   // uint8, [N, voxels]
  std::int64_t n_ = 0, classes_ = 0, voxels_ = 0, class_stride_ = 0, voxel_stride_ = 0;
  kernels::DiceCeTotal total_;
  std::vector<kernels::DiceCeSlopes> slopes_;  // [N or 1]
  std::vector<float> weight_;  // of the cross entropy, by what a label may hold: [256]
};

}  // namespace sluice
