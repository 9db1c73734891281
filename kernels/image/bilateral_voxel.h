// One neighbour of one voxel in a bilateral filter: its weight, and what it adds to the gradients.
// The one functor of bilateral_filter, joint_bilateral_filter, the trainable ones and all of their
// gradients, for host and device.
//
//   w(i, j) = exp(-sum_a (i_a - j_a)^2 / 2 s_a^2 - |g_i - g_j|^2 / 2 s_c^2) m_j
//   out_i = sum_j w x_j / sum_j w              g: guide, x: image, m: 0 where there is no voxel
//
// Invariant: arrays have a frame as wide as half of the window, so no neighbour is out of memory.
// Every product that is added to is a fused one by name, and neighbours are taken in one order: so
// host and device compute the same bits of float.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

// Sums of a voxel that a device's thread holds: 4 + channels + guides.
inline constexpr int bilateral_most = 24;

// Axes that are not there come first, with one voxel and no frame. A channel of a framed array has
// `cells` numbers; `of` are the voxels within the frame.
template <class T>
struct BilateralCall {
  int guides = 1, channels = 1;
  int half[3] = {0, 0, 0};
  std::int64_t of[3] = {1, 1, 1}, stride[3] = {0, 0, 1}, cells = 0;
  T space[3] = {0, 0, 0}, color = 0;  // -log2(e) / 2 s^2
  const T *guide = nullptr, *image = nullptr;
  const T* mask = nullptr;  // none: a voxel is everywhere
  // Of the forward pass, [channels, of]: sum_j w x_j / sum_j w and [of]: sum_j w.
  T *filtered = nullptr, *weight = nullptr;
  // Of the backward pass: framed, dL/dout / sum_j w and what came out, 0 in the frame; gradients
  // [channels, of] and [guides, of]; [4, of] what each voxel adds to the sigmas' gradients.
  const T *slope = nullptr, *out = nullptr;
  T *to_image = nullptr, *to_guide = nullptr, *to_sigmas = nullptr;

  SLUICE_HD std::int64_t voxels() const { return of[0] * of[1] * of[2]; }
  SLUICE_HD std::int64_t cell(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return (x + half[0]) * stride[0] + (y + half[1]) * stride[1] + z + half[2];
  }
};

// Where a neighbour lies, and the part of its weight that voxels share.
template <class T>
struct BilateralTap {
  std::int64_t by = 0;
  T space = 0;
  T square[3] = {0, 0, 0};  // of the distances along the axes

  SLUICE_HD void set(const BilateralCall<T>& c, int a, int b, int d) {
    by = a * c.stride[0] + b * c.stride[1] + d;
    square[0] = static_cast<T>(a * a);
    square[1] = static_cast<T>(b * b);
    square[2] = static_cast<T>(d * d);
    space = mad(square[2], c.space[2], mad(square[1], c.space[1], square[0] * c.space[0]));
  }
};

// Of Lanes voxels from cell p on, along the last axis: the weights of their neighbours, and how far
// the colours of these are.
template <class T, int Lanes>
SLUICE_HD inline void bilateral_weights(const BilateralCall<T>& c, const BilateralTap<T>& tap,
                                        std::int64_t p, T* distance, T* weight) {
  for (int l = 0; l < Lanes; ++l) distance[l] = 0;
  for (int g = 0; g < c.guides; ++g) {
    const T *here = c.guide + g * c.cells + p, *there = here + tap.by;
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) {
      const T d = here[l] - there[l];
      distance[l] = mad(d, d, distance[l]);
    }
  }
  const T color = c.color, space = tap.space;
  SLUICE_LANES
  for (int l = 0; l < Lanes; ++l) weight[l] = power_of_two(mad(distance[l], color, space));
  if (!c.mask) return;
  const T* mask = c.mask + p + tap.by;
  SLUICE_LANES
  for (int l = 0; l < Lanes; ++l) weight[l] = mask[l] != 0 ? weight[l] : T(0);
}

// run(tap) for every neighbour, in order.
template <class T, class Run>
SLUICE_HD inline void each_tap(const BilateralCall<T>& c, Run&& run) {
  BilateralTap<T> tap;
  for (int a = -c.half[0]; a <= c.half[0]; ++a)
    for (int b = -c.half[1]; b <= c.half[1]; ++b)
      for (int d = -c.half[2]; d <= c.half[2]; ++d) {
        tap.set(c, a, b, d);
        run(tap);
      }
}

// The sums of Lanes voxels: Lanes numbers for each of 1 + channels (the weights, the values).
template <class T, int Lanes>
SLUICE_HD inline void bilateral_sums(const BilateralCall<T>& c, std::int64_t p, T* held) {
  for (int l = 0; l < Lanes * (1 + c.channels); ++l) held[l] = 0;
  each_tap(c, [&](const BilateralTap<T>& tap) {
    T distance[Lanes], w[Lanes];
    bilateral_weights<T, Lanes>(c, tap, p, distance, w);
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) held[l] += w[l];
    for (int k = 0; k < c.channels; ++k) {
      const T* x = c.image + k * c.cells + p + tap.by;
      T* sum = held + (1 + k) * Lanes;
      SLUICE_LANES
      for (int l = 0; l < Lanes; ++l) sum[l] = mad(w[l], x[l], sum[l]);
    }
  });
}

// Likewise of the backward pass: 4 (color, then the three axes) + channels (image) + guides. L
// changes with w(p, q) by `own`, with w(q, p) by `other`, q being the neighbour of p.
template <class T, int Lanes>
SLUICE_HD inline void bilateral_slopes(const BilateralCall<T>& c, std::int64_t p, T* held) {
  for (int l = 0; l < Lanes * (4 + c.channels + c.guides); ++l) held[l] = 0;
  each_tap(c, [&](const BilateralTap<T>& tap) {
    T distance[Lanes], w[Lanes], own[Lanes], other[Lanes];
    bilateral_weights<T, Lanes>(c, tap, p, distance, w);
    for (int l = 0; l < Lanes; ++l) own[l] = other[l] = 0;
    for (int k = 0; k < c.channels; ++k) {
      const std::int64_t at = k * c.cells + p;
      const T *slope = c.slope + at, *x = c.image + at, *out = c.out + at;
      const T *slope_there = slope + tap.by, *x_there = x + tap.by, *out_there = out + tap.by;
      T* sum = held + (4 + k) * Lanes;
      SLUICE_LANES
      for (int l = 0; l < Lanes; ++l) {
        own[l] = mad(slope[l], x_there[l] - out[l], own[l]);
        other[l] = mad(slope_there[l], x[l] - out_there[l], other[l]);
        sum[l] = mad(w[l], slope_there[l], sum[l]);
      }
    }
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) {
      const T by_weight = w[l] * own[l];
      held[l] = mad(by_weight, distance[l], held[l]);
      held[Lanes + l] = mad(by_weight, tap.square[0], held[Lanes + l]);
      held[2 * Lanes + l] = mad(by_weight, tap.square[1], held[2 * Lanes + l]);
      held[3 * Lanes + l] = mad(by_weight, tap.square[2], held[3 * Lanes + l]);
      own[l] = w[l] * (own[l] + other[l]);
    }
    for (int g = 0; g < c.guides; ++g) {
      const T *here = c.guide + g * c.cells + p, *there = here + tap.by;
      T* sum = held + (4 + c.channels + g) * Lanes;
      SLUICE_LANES
      for (int l = 0; l < Lanes; ++l) sum[l] = mad(own[l], there[l] - here[l], sum[l]);
    }
  });
}

// The same, written to where `call` says, for `lanes` voxels of a row.
template <class T, int Lanes>
SLUICE_HD inline void bilateral_store(const BilateralCall<T>& c, std::int64_t voxel, int lanes,
                                      const T* held, bool backward) {
  const std::int64_t n = c.voxels();
  const auto put = [&](T* to, const T* from, int rows) {
    for (int r = 0; r < rows; ++r)
      for (int l = 0; l < lanes; ++l) to[r * n + voxel + l] = from[r * Lanes + l];
  };
  if (!backward) {
    put(c.weight, held, 1);
    for (int k = 0; k < c.channels; ++k)
      for (int l = 0; l < lanes; ++l)
        c.filtered[k * n + voxel + l] = held[(1 + k) * Lanes + l] / held[l];
  } else {
    put(c.to_sigmas, held, 4);
    put(c.to_image, held + 4 * Lanes, c.channels);
    put(c.to_guide, held + (4 + c.channels) * Lanes, c.guides);
  }
}

}  // namespace sluice::kernels
