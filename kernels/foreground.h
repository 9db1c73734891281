// Picking random foreground and background voxels without a list of them.
//
// Invariant: the k-th foreground voxel is the k-th in memory order, as in MONAI's index lists.
// One byte a voxel and one count an x-plane replace two lists of int64; a pick walks one plane.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/affine.h"

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

// The same from a list of voxel numbers, int32 [n] (or int64), as they lie in a volume of `shape`.
class VoxelList {
 public:
  VoxelList() = default;  // an empty one
  VoxelList(const at::Tensor& numbers, const Shape3& shape);
  std::uint64_t count() const { return static_cast<std::uint64_t>(count_); }
  Shape3 voxel(std::uint64_t k) const;  // k < count(); a number that lies outside is a DataError

 private:
  at::Tensor numbers_;
  Shape3 shape_{};
  std::int64_t count_ = 0;
};

// The numbers of the voxels that are set in a mask, int32 [n]: a volume has fewer than 2^31.
at::Tensor voxel_numbers(const at::Tensor& mask);

// Foreground: any label channel not 0 (the first of several is background and left out).
at::Tensor foreground_mask(const at::Tensor& label);
// Background: not foreground and, where there is an image, any of its channels above threshold.
at::Tensor background_mask(const at::Tensor& foreground, const at::Tensor* image, double threshold);

}  // namespace sluice
