// Blending the windows of sliding-window inference, for host and device: each voxel takes what the
// windows over it predict, weighted by one Gaussian an axis (or equally), in the windows' order.
//
//   sum[c]  += logits[w][c] * weight        total += weight         (a batch of windows at a time)
//   result   = sum[c] / total, or the class for which that is largest
//
// Where windows come in the order of the first axis, planes that no later window touches can be
// finished at once, and only a window's depth of planes need be kept.
//
// Invariant: a voxel is written by one thread, so overlapping windows need no atomics, the result
// repeats bit for bit, and it does not depend on how windows are cut into batches.
#pragma once

#include "kernels/base/as_half.h"
#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

inline constexpr int blend_windows = 64;

SLUICE_HD inline float stored(float x, bool half) { return half ? as_half(x) : x; }

// What was summed up so far: sum [channels, planes, y, z], total [planes, y, z], both zero at
// first. Plane x of the volume is kept at x modulo the number of planes.
struct BlendSums {
  std::int32_t channels = 1, size[3] = {1, 1, 1};  // of the volume
  std::int32_t sum_planes = 1, total_planes = 1;
  float *sum = nullptr, *total = nullptr;
  bool half = false;  // what is stored is rounded to float16, as nnU-Net keeps its sums

  SLUICE_HD std::int64_t plane() const { return static_cast<std::int64_t>(size[1]) * size[2]; }
  SLUICE_HD std::int64_t channel() const { return sum_planes * plane(); }
  SLUICE_HD float* sum_of(int x) const { return sum + x % sum_planes * plane(); }
  SLUICE_HD float* total_of(int x) const { return total + x % total_planes * plane(); }
};

struct BlendCall {
  // The windows' logits, [windows, channels, x, y, z] in any layout.
  const void* logits = nullptr;
  VoxelType type = VoxelType::f32;
  std::int32_t windows = 0, window[3] = {1, 1, 1};
  std::int32_t start[blend_windows][3];
  std::int64_t window_stride = 0, channel_stride = 0, stride[3] = {0, 0, 1};
  // Weights along each axis of a window, [window[d]]; null: 1. Their product is at least `least`.
  const float* weight[3] = {nullptr, nullptr, nullptr};
  float least = 0;
  BlendSums sums;
};

// Planes begin .. end - 1 are done: `sum` becomes the mean there, or is zero again and `classes`
// [x, y, z] the result. `total` is zero again.
struct BlendFinish {
  BlendSums sums;
  std::int32_t begin = 0, end = 0;
  std::uint8_t* classes = nullptr;  // null: the means
};

// The part of the volume that a batch of windows covers.
struct BlendBox {
  std::int32_t begin[3], end[3];
  static BlendBox of(const BlendCall& c) {
    BlendBox b{{c.sums.size[0], c.sums.size[1], c.sums.size[2]}, {0, 0, 0}};
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
  const BlendSums& s = c.sums;
  if (!c.logits || !s.sum || !s.total) return "a null pointer";
  if (c.windows < 1 || c.windows > blend_windows) return "too many windows, or none";
  if (s.channels < 1) return "no channels";
  for (int w = 0; w < c.windows; ++w)
    for (int d = 0; d < 3; ++d)
      if (c.window[d] < 1 || c.start[w][d] < 0 || c.start[w][d] > s.size[d] - c.window[d])
        return "a window outside the volume";
  const BlendBox box = BlendBox::of(c);
  const std::int32_t planes = box.end[0] - box.begin[0];
  if (planes > s.sum_planes || planes > s.total_planes) return "more planes than are kept";
  return nullptr;
}
inline const char* blend_problem(const BlendFinish& f) {
  const BlendSums& s = f.sums;
  if (!s.sum || !s.total) return "a null pointer";
  if (s.channels < 1) return "no channels";
  if (f.classes && s.channels > 256) return "channels that a byte does not count";
  if (f.begin < 0 || f.end > s.size[0] || f.begin > f.end) return "planes outside the volume";
  const std::int32_t planes = f.end - f.begin;
  if (planes > s.sum_planes || planes > s.total_planes) return "more planes than are kept";
  return nullptr;
}

// Adds what the batch's windows say of voxel (x, y, z).
template <class T>
SLUICE_HD inline void blend_voxel(const BlendCall& c, int x, int y, int z) {
  const std::int64_t in_plane = static_cast<std::int64_t>(y) * c.sums.size[2] + z;
  const std::int64_t channel = c.sums.channel();
  float* const sums = c.sums.sum_of(x) + in_plane;
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
    weight = stored(weight, c.sums.half);
    weight = weight > c.least ? weight : c.least;
    if (!any) total = c.sums.total_of(x)[in_plane];
    any = true;
    total = stored(total + weight, c.sums.half);
    for (int k = 0; k < c.sums.channels; ++k) {
      float& sum = sums[k * channel];
      sum = stored(
          mad(to_float(static_cast<const T*>(c.logits)[at + k * c.channel_stride]), weight, sum),
          c.sums.half);
    }
  }
  if (any) c.sums.total_of(x)[in_plane] = total;
}

// The class with the largest mean, the first of equal ones. Of the means and not of the sums, which
// may differ where their quotients round to the same number.
SLUICE_HD inline std::uint8_t blended_class(const float* sum, std::int64_t stride, int channels,
                                            float total, bool half) {
  int best = 0;
  float top = stored(sum[0] / total, half);
  for (int k = 1; k < channels; ++k) {
    const float v = stored(sum[k * stride] / total, half);
    if (outranks(v, top)) best = k, top = v;
  }
  return static_cast<std::uint8_t>(best);
}

// Finishes voxel `in_plane` of plane x.
SLUICE_HD inline void finish_voxel(const BlendFinish& f, int x, std::int64_t in_plane) {
  const BlendSums& s = f.sums;
  float* const sum = s.sum_of(x) + in_plane;
  float& total = s.total_of(x)[in_plane];
  if (f.classes)
    f.classes[x * s.plane() + in_plane] =
        blended_class(sum, s.channel(), s.channels, total, s.half);
  for (int k = 0; k < s.channels; ++k)
    sum[k * s.channel()] = f.classes ? 0.0f : stored(sum[k * s.channel()] / total, s.half);
  total = 0;
}

}  // namespace sluice::kernels
