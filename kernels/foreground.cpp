#include "kernels/foreground.h"

#include <ATen/ops/any.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/ne.h>

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
