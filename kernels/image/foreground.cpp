#include "kernels/image/foreground.h"

#include <ATen/ops/any.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/ne.h>

#include <algorithm>
#include <string>

#include "engine/base/error.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {
namespace {

using kernels::bit_words;

at::Tensor any_channel(const at::Tensor& mask) {
  return mask.size(0) == 1 ? mask.squeeze(0) : at::any(mask, 0);
}

at::Tensor room(std::int64_t voxels, at::Device device) {
  return at::empty({bit_words(voxels) + kernels::bit_blocks(voxels) + 1},
                   at::dtype(at::kInt).device(device));
}
std::uint32_t* words_of(const at::Tensor& packed) {
  return reinterpret_cast<std::uint32_t*>(packed.mutable_data_ptr<std::int32_t>());
}

at::Tensor packed(const at::Tensor& mask) {
  const at::Tensor flat = mask.contiguous();
  const std::int64_t voxels = flat.numel();
  const at::Tensor out = room(voxels, at::kCPU);
  std::uint32_t* p = words_of(out);
  kernels::make_bits(static_cast<const std::uint8_t*>(flat.const_data_ptr()), voxels, p,
                     p + bit_words(voxels));
  return out;
}

at::Tensor packed_on_device(const at::Tensor& label, const at::Tensor* image, double threshold,
                            bool background) {
  const at::Tensor y = (is_voxel_type(label.scalar_type()) ? label : at::ne(label, 0)).contiguous();
  at::Tensor x;
  if (image)
    x = (is_voxel_type(image->scalar_type()) ? *image : image->to(at::kFloat)).contiguous();
  kernels::BitRule rule;
  rule.label = y.const_data_ptr();
  rule.label_type = voxel_type(y);
  rule.label_channels = static_cast<std::int32_t>(y.size(0));
  if (image) {
    rule.image = x.const_data_ptr();
    rule.image_type = voxel_type(x);
    rule.image_channels = static_cast<std::int32_t>(x.size(0));
    rule.threshold = static_cast<float>(threshold);
  }
  rule.background = background;
  rule.voxels = y.numel() / y.size(0);
  const at::Tensor out = room(rule.voxels, y.device());
  std::uint32_t* p = words_of(out);
  const CudaCall call(y);
  call.require(call.table.bits(rule, p, p + bit_words(rule.voxels), call.stream));
  return out.cpu();
}

}  // namespace

at::Tensor mask_bits(const at::Tensor& mask) { return packed(mask.cpu()); }

VoxelBits::VoxelBits(const at::Tensor& packed, const Shape3& shape)
    : packed_(packed.cpu().contiguous()), shape_(shape) {
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

at::Tensor foreground_bits(const at::Tensor& label) {
  if (cuda_takes(label)) return packed_on_device(label, nullptr, 0, false);
  const std::int64_t channels = label.size(0);
  return packed(any_channel(at::ne(channels > 1 ? label.narrow(0, 1, channels - 1) : label, 0)));
}

at::Tensor background_bits(const at::Tensor& label, const at::Tensor& foreground,
                           const at::Tensor* image, double threshold) {
  if (cuda_takes(label)) return packed_on_device(label, image, threshold, true);
  const std::int64_t voxels = label.numel() / label.size(0);
  const at::Tensor above = image ? packed(any_channel(at::gt(*image, threshold))) : at::Tensor();
  const std::uint32_t *taken = words_of(foreground), *allowed = image ? words_of(above) : nullptr;
  const at::Tensor out = room(voxels, at::kCPU);
  std::uint32_t* p = words_of(out);
  kernels::make_ranked(voxels, p, p + bit_words(voxels), [&](std::int64_t w) {
    const std::int64_t there = std::min<std::int64_t>(voxels - w * 32, 32);
    const std::uint32_t word = ~taken[w] & (~0u >> (32 - there));
    return allowed ? word & allowed[w] : word;
  });
  return out;
}

}  // namespace sluice
