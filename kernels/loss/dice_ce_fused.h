// Softmax, Dice and cross entropy in two passes over the logits: one for the sums, one for the
// gradient; the probabilities are computed twice and never stored.
//
// Invariant: a voxel's work is the same in both passes, block by block of `block` voxels.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/loss/dice_ce.h"

namespace sluice {

inline constexpr std::int64_t fused_classes = 32;  // more would leave the first-level cache

inline constexpr std::int64_t fused_block = 512;  // voxels

class FusedDiceCe {
 public:
  FusedDiceCe() = default;
  FusedDiceCe(const at::Tensor& logits, const at::Tensor& label, const DiceCe& p);
  double loss() const { return loss_; }
  // dloss/dlogits times `scale`, in the logits' layout.
  at::Tensor gradient(double scale) const;

 private:
  // A block's logits, probabilities or gradients, class by class: v[c * fused_block + i].
  struct Buffer {
    alignas(64) float v[fused_classes * fused_block], label[fused_block], weight[fused_block];
  };
  template <class F>
  void each_block(const F& body) const;
  void sums();
  void finish();

  DiceCe p_;
  at::Tensor logits_;  // dense, [N, C, ...] contiguous or channels-last
  at::Tensor label_;   // uint8, [N, voxels]
  std::int64_t n_ = 0, classes_ = 0, voxels_ = 0, class_stride_ = 0, voxel_stride_ = 0;
  double loss_ = 0, ce_scale_ = 0;
  std::vector<double> total_;       // [N or 1][3 C + 1]: P, I and T by class; the cross entropy
  std::vector<float> by_i_, by_p_;  // [N][C]: d loss / d I, d loss / d P
  std::vector<float> weight_;       // of the cross entropy, by what a label may hold: [256]
};

}  // namespace sluice
