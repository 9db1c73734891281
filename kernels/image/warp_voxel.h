// One voxel of a warp: where the displacement of an output voxel points to in the image, the value
// there, its slopes, and the adjoint, which adds to the image. Linear along every axis. One functor
// for the pass, both of its gradients, and for host and device.
//
// Invariant: a coordinate that is not finite gives NaN, never a voxel of somewhere else.
#pragma once

#include <cstdint>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

enum class Outside : std::uint8_t { zeros, border };

// The two neighbours along one axis: their cells, weights, and what the weights gain a voxel.
template <class T>
struct WarpAxis {
  std::int64_t cell[2];
  T weight[2], slope[2];

  SLUICE_HD void set(T x, std::int64_t n, std::int64_t stride, Outside outside) {
    const T last = static_cast<T>(n - 1), none = (x - x);  // NaN where x is no number
    // Further out than the first voxel that does not count makes no difference.
    T at = x < -2 ? T(-2) : x > last + 2 ? last + 2 : x == x ? x : T(0);
    T grows = 1;
    if (outside == Outside::border) {
      if (!(at > 0 && at < last)) grows = 0;  // as in torch, the border itself has no slope
      at = at < 0 ? T(0) : at > last ? last : at;
    }
    if (n == 1) at = grows = 0;
    const int whole = static_cast<int>(at), low = at < static_cast<T>(whole) ? whole - 1 : whole,
              high = low + 1, end = static_cast<int>(n);
    const T t = at - static_cast<T>(low);
    const bool first = low >= 0 && low < end, second = high >= 0 && high < end;
    cell[0] = (first ? low : 0) * stride;
    cell[1] = (second ? high : 0) * stride;
    weight[0] = (first ? 1 - t : T(0)) + none;
    weight[1] = second ? t : T(0);
    slope[0] = first ? -grows : T(0);
    slope[1] = second ? grows : T(0);
  }
};

// The last D of three axes; those before them have one voxel.
template <class T, int D>
struct WarpVoxel {
  static constexpr int count(int axis) { return axis < 3 - D ? 1 : 2; }
  WarpAxis<T> axis[3] = {{{0, 0}, {1, 0}, {0, 0}}, {{0, 0}, {1, 0}, {0, 0}}, {}};

  SLUICE_HD T value(const T* image) const {
    T sum = 0;
    for (int i = 0; i < count(0); ++i)
      for (int j = 0; j < count(1); ++j) {
        const T* row = image + axis[0].cell[i] + axis[1].cell[j];
        const T w = axis[0].weight[i] * axis[1].weight[j];
        sum += w * (axis[2].weight[0] * row[axis[2].cell[0]] +
                    axis[2].weight[1] * row[axis[2].cell[1]]);
      }
    return sum;
  }
  SLUICE_HD void add(T* image, T value) const {
    for (int i = 0; i < count(0); ++i)
      for (int j = 0; j < count(1); ++j) {
        T* row = image + axis[0].cell[i] + axis[1].cell[j];
        const T w = value * axis[0].weight[i] * axis[1].weight[j];
        row[axis[2].cell[0]] += w * axis[2].weight[0];
        row[axis[2].cell[1]] += w * axis[2].weight[1];
      }
  }
  // Adds `value` times the derivative along each of the three axes to `out`.
  SLUICE_HD void slopes(const T* image, T value, T* out) const {
    T d[3] = {0, 0, 0};
    for (int i = 0; i < count(0); ++i)
      for (int j = 0; j < count(1); ++j) {
        const T* row = image + axis[0].cell[i] + axis[1].cell[j];
        const T a = row[axis[2].cell[0]], b = row[axis[2].cell[1]];
        const T v = axis[2].weight[0] * a + axis[2].weight[1] * b;
        d[0] += axis[0].slope[i] * axis[1].weight[j] * v;
        d[1] += axis[0].weight[i] * axis[1].slope[j] * v;
        d[2] +=
            axis[0].weight[i] * axis[1].weight[j] * (axis[2].slope[0] * a + axis[2].slope[1] * b);
      }
    for (int a = 0; a < 3; ++a) out[a] += value * d[a];
  }
};

}  // namespace sluice::kernels
