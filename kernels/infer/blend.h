// The weighted mean of overlapping windows' logits (blend_voxel.h), on the CPU with team.h's
// threads or on a CUDA device.
//
//   first axis ->   |= finished =|~ a window's depth of sums ~|  not begun  |
//                                 ^ where the last window began
//
// Invariant: beside the result only a window's depth of planes is held: of weights, and where
// classes are asked for of sums too. The result is the same to the bit for any number of threads
// and however the windows are cut into batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/infer/blend_host.h"

namespace sluice {

// A window's extent and its weights: one tensor a spatial axis, float32, where blend_device() is; a
// voxel's weight is their product, at least `least`. No tensors: 1 everywhere.
struct BlendWindow {
  std::vector<std::int64_t> size;
  std::vector<at::Tensor> weights;
  float least = 0;
  bool half = false;  // weights and sums are rounded to float16, as nnU-Net's
};

class Blend {
 public:
  // `result` is contiguous and on blend_device(): float32 [channels, X, Y(, Z)] receives means,
  // uint8 [1, X, Y(, Z)] the class with the largest one.
  Blend(const BlendWindow& window, std::int64_t channels, const at::Tensor& result);
  // Logits [W, channels, x, y(, z)] of windows that begin at `starts`. A window never begins in
  // front of an earlier one on the first axis.
  void add(const at::Tensor& logits, std::span<const std::vector<std::int64_t>> starts);
  void finish();  // after the last window; every voxel was in one

  std::int64_t bytes() const;  // what is held beside the result

 private:
  void add_layer(const at::Tensor& logits, std::span<const std::vector<std::int64_t>> starts);
  void finish_to(std::int32_t plane);

  BlendWindow window_;
  at::Tensor result_, sum_, total_;
  kernels::BlendSums sums_;
  std::int32_t finished_ = 0;
};

// Where the sums of a volume are kept that lies on `home`: there, or on the host where no kernel
// for it is.
at::Device blend_device(const at::Tensor& volume);

}  // namespace sluice
