#include "kernels/foreground.h"

#include <ATen/ops/any.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/ne.h>

#include <string>

#include "engine/error.h"

namespace sluice {
namespace {

at::Tensor any_channel(const at::Tensor& mask) {
  return mask.size(0) == 1 ? mask.squeeze(0) : at::any(mask, 0);
}

}  // namespace

VoxelPool::VoxelPool(at::Tensor mask) : mask_(std::move(mask)) {
  const auto* p = static_cast<const std::uint8_t*>(mask_.const_data_ptr());
  const std::int64_t plane = mask_.size(1) * mask_.size(2);
  for (std::int64_t x = 0; x < mask_.size(0); ++x, p += plane) {
    std::uint32_t n = 0;
    for (std::int64_t i = 0; i < plane; ++i) n += p[i];
    in_plane_.push_back(n);
    total_ += n;
  }
}

Shape3 VoxelPool::voxel(std::uint64_t k) const {
  std::int64_t x = 0;
  for (; k >= in_plane_[x]; ++x) k -= in_plane_[x];
  const std::int64_t width = mask_.size(2), plane = mask_.size(1) * width;
  const auto* p = static_cast<const std::uint8_t*>(mask_.const_data_ptr()) + x * plane;
  std::int64_t i = 0;
  for (;; ++i)
    if (p[i] && k-- == 0) return {x, i / width, i % width};
}

VoxelBits::VoxelBits(const at::Tensor& packed, const Shape3& shape)
    : packed_(packed.contiguous()), shape_(shape) {
  const std::int64_t voxels = shape[0] * shape[1] * shape[2];
  const std::int64_t words = kernels::bit_words(voxels), ranks = kernels::bit_blocks(voxels) + 1;
  if (packed.scalar_type() != at::kInt || packed.dim() != 1 || packed.numel() != words + ranks)
    throw DataError("these are not the foreground's or background's voxels of a volume " +
                    std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " x " +
                    std::to_string(shape[2]) +
                    "; was it cropped or resampled after fg_bg_to_indices looked at it?");
  const auto* p = reinterpret_cast<const std::uint32_t*>(packed_.const_data_ptr<std::int32_t>());
  mask_ = {p, p + words, voxels};
  count_ = mask_.count();
}

Shape3 VoxelBits::voxel(std::uint64_t k) const {
  const std::int64_t i = mask_.voxel(static_cast<std::uint32_t>(k));
  const std::int64_t plane = shape_[1] * shape_[2];
  return {i / plane, i % plane / shape_[2], i % shape_[2]};
}

at::Tensor packed_bits(const at::Tensor& mask) {
  const at::Tensor flat = mask.contiguous();
  const std::int64_t voxels = flat.numel(), words = kernels::bit_words(voxels);
  at::Tensor packed = at::empty({words + kernels::bit_blocks(voxels) + 1}, at::kInt);
  auto* p = reinterpret_cast<std::uint32_t*>(packed.mutable_data_ptr<std::int32_t>());
  kernels::make_bits(static_cast<const std::uint8_t*>(flat.const_data_ptr()), voxels, p, p + words);
  return packed;
}

at::Tensor foreground_mask(const at::Tensor& label) {
  const std::int64_t channels = label.size(0);
  return any_channel(at::ne(channels > 1 ? label.narrow(0, 1, channels - 1) : label, 0));
}

at::Tensor background_mask(const at::Tensor& foreground, const at::Tensor* image,
                           double threshold) {
  const at::Tensor rest = at::logical_not(foreground);
  return image ? at::logical_and(rest, any_channel(at::gt(*image, threshold))) : rest;
}

}  // namespace sluice
