// Picking random foreground and background voxels without a list of them.
//
// Invariant: the k-th foreground voxel is the k-th in memory order, as in MONAI's index lists.
// One byte a voxel and one count an x-plane, or one bit a voxel, replace two lists of int64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/affine.h"
#include "kernels/bit_mask.h"

namespace sluice {

class VoxelPool {
 public:
  // mask: bool, contiguous [X, Y, Z].
  explicit VoxelPool(at::Tensor mask);
  std::uint64_t count() const { return total_; }
  Shape3 voxel(std::uint64_t k) const;  // k < count()

 private:
  at::Tensor mask_;
  std::vector<std::uint32_t> in_plane_;
  std::uint64_t total_ = 0;
};

// The same from a bit a voxel and ranks (bit_mask.h), as packed_bits() makes them.
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

// The voxels that are set in a bool mask: words, then ranks, int32 [bit_words + bit_blocks + 1].
at::Tensor packed_bits(const at::Tensor& mask);

// Foreground: any label channel not 0 (the first of several is background and left out).
at::Tensor foreground_mask(const at::Tensor& label);
// Background: not foreground and, where there is an image, any of its channels above threshold.
at::Tensor background_mask(const at::Tensor& foreground, const at::Tensor* image, double threshold);

}  // namespace sluice
