// Blending the windows of sliding-window inference, for host and device: each voxel takes what the
// windows over it predict, weighted by one Gaussian an axis (or equally), in the windows' order.
//
//   sum[c]  += logits[w][c] * weight        total += weight         (a batch of windows at a time)
//   result   = sum[c] / total, or the class with the largest sum
//
// Invariant: a voxel is written by one thread, so overlapping windows need no atomics, the result
// repeats bit for bit, and it does not depend on how windows are cut into batches.
#pragma once

#include "kernels/voxel_type.h"

namespace sluice::kernels {

inline constexpr int blend_windows = 64;

struct BlendCall {
  // The windows' logits, [windows, channels, x, y, z] in any layout.
  const void* logits = nullptr;
  VoxelType type = VoxelType::f32;
  std::int32_t windows = 0, channels = 1, window[3] = {1, 1, 1};
  std::int32_t start[blend_windows][3];
  std::int64_t window_stride = 0, channel_stride = 0, stride[3] = {0, 0, 1};
  // Weights along each axis of a window, [window[d]]; null: 1. Their product is at least `least`.
  const float* weight[3] = {nullptr, nullptr, nullptr};
  float least = 0;
  // Of the volume: sum [channels, x, y, z], total [x, y, z]; both zero before the first batch.
  std::int32_t size[3] = {1, 1, 1};
  float *sum = nullptr, *total = nullptr;
};

// The part of the volume that a batch of windows covers.
struct BlendBox {
  std::int32_t begin[3], end[3];
  static BlendBox of(const BlendCall& c) {
    BlendBox b{{c.size[0], c.size[1], c.size[2]}, {0, 0, 0}};
    for (int w = 0; w < c.windows; ++w)
      for (int d = 0; d < 3; ++d) {
        const std::int32_t s = c.start[w][d], e = s + c.window[d];
        b.begin[d] = s < b.begin[d] ? s : b.begin[d];
        b.end[d] = e > b.end[d] ? e : b.end[d];
      }
    return b;
  }
};

// What is wrong with a call, or null.
inline const char* blend_problem(const BlendCall& c) {
  if (!c.logits || !c.sum || !c.total) return "a null pointer";
  if (c.windows < 1 || c.windows > blend_windows) return "too many windows, or none";
  if (c.channels < 1) return "no channels";
  for (int w = 0; w < c.windows; ++w)
    for (int d = 0; d < 3; ++d)
      if (c.window[d] < 1 || c.start[w][d] < 0 || c.start[w][d] > c.size[d] - c.window[d])
        return "a window outside the volume";
  return nullptr;
}

// Adds what the batch's windows say of voxel (x, y, z).
template <class T>
SLUICE_HD inline void blend_voxel(const BlendCall& c, int x, int y, int z) {
  const std::int64_t voxel = (static_cast<std::int64_t>(x) * c.size[1] + y) * c.size[2] + z;
  const std::int64_t voxels = static_cast<std::int64_t>(c.size[0]) * c.size[1] * c.size[2];
  float total = 0;
  bool any = false;
  for (int w = 0; w < c.windows; ++w) {
    const int i[3] = {x - c.start[w][0], y - c.start[w][1], z - c.start[w][2]};
    std::int64_t at = w * c.window_stride;
    float weight = 1;
    bool inside = true;
    for (int d = 0; d < 3; ++d)
      inside = inside && static_cast<unsigned>(i[d]) < static_cast<unsigned>(c.window[d]);
    if (!inside) continue;
    for (int d = 0; d < 3; ++d) {
      if (c.weight[d]) weight *= c.weight[d][i[d]];
      at += i[d] * c.stride[d];
    }
    weight = weight > c.least ? weight : c.least;
    if (!any) total = c.total[voxel];
    any = true;
    total += weight;
    for (int k = 0; k < c.channels; ++k) {
      float& sum = c.sum[k * voxels + voxel];
      sum = mad(to_float(static_cast<const T*>(c.logits)[at + k * c.channel_stride]), weight, sum);
    }
  }
  if (any) c.total[voxel] = total;
}

// The class with the largest sum, the first of equal ones.
SLUICE_HD inline std::uint8_t blended_class(const float* sum, std::int64_t stride, int channels) {
  int best = 0;
  float top = sum[0];
  for (int k = 1; k < channels; ++k) {
    const float v = sum[k * stride];
    if (v > top) best = k, top = v;
  }
  return static_cast<std::uint8_t>(best);
}

}  // namespace sluice::kernels
