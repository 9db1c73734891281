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

VoxelList::VoxelList(const at::Tensor& numbers, const Shape3& shape)
    : numbers_(numbers), shape_(shape), count_(numbers.numel()) {
  if (numbers.dim() != 1 || !at::isIntegralType(numbers.scalar_type(), false))
    throw DataError("voxel numbers are a list of integers");
}

Shape3 VoxelList::voxel(std::uint64_t k) const {
  const auto i = numbers_[static_cast<std::int64_t>(k)].item<std::int64_t>();
  const std::int64_t plane = shape_[1] * shape_[2];
  if (i < 0 || i >= shape_[0] * plane)
    throw DataError(
        "voxel number " + std::to_string(i) +
        " lies outside the label; was it cropped or resampled after the list was made?");
  return {i / plane, i % plane / shape_[2], i % shape_[2]};
}

at::Tensor voxel_numbers(const at::Tensor& mask) {
  const at::Tensor flat = mask.contiguous();
  const std::int64_t n = flat.numel();
  const auto* set = static_cast<const std::uint8_t*>(flat.const_data_ptr());
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += set[i];
  at::Tensor numbers = at::empty({count + 1}, at::kInt);  // one to spare: no test in the loop
  auto* to = numbers.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    *to = static_cast<std::int32_t>(i);
    to += set[i];
  }
  return numbers.narrow(0, 0, count);
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
