// Picking random foreground and background voxels without a list of them.
//
// Invariant: the k-th foreground voxel is the k-th in memory order, as in MONAI's index lists. One
// bit a voxel and ranks (bit_mask.h) replace two lists of int64. They lie in host memory, wherever
// the label lies: the draws are made there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/base/bit_mask.h"
#include "kernels/image/affine.h"

namespace sluice {

// A pool of voxels to draw from.
class VoxelBits {
 public:
  VoxelBits() = default;  // an empty one
  // `packed` of a volume of `shape`; anything else is a DataError.
  VoxelBits(const at::Tensor& packed, const Shape3& shape);
  std::uint64_t count() const { return count_; }
  Shape3 voxel(std::uint64_t k) const;  // k < count()

 private:
  at::Tensor packed_;
  kernels::BitMask mask_;
  Shape3 shape_{};
  std::uint64_t count_ = 0;
};

// Foreground: any channel of the label [C, X, Y, Z] not 0 (the first of several is background and
// left out). Background: not foreground and, where there is an image, any of its channels above the
// threshold. Words, then ranks: int32 [bit_words + bit_blocks + 1]. Of a label on a device the mask
// is made there, and the host waits for it. `foreground` is foreground_bits() of the same label.
at::Tensor foreground_bits(const at::Tensor& label);
at::Tensor background_bits(const at::Tensor& label, const at::Tensor& foreground,
                           const at::Tensor* image, double threshold);
// Of a bool mask [X, Y, Z], wherever it lies.
at::Tensor mask_bits(const at::Tensor& mask);

}  // namespace sluice
