// One voxel of a median filter, and of its gradient: which voxel of a window was the median, and
// for which windows a voxel was. For host and device.
//
// Invariant: the image has a frame as wide as the radius, so no neighbour is out of memory. A
// voxel's gradient is summed in the order of the windows.
#pragma once

#include "kernels/image/median_select.h"

namespace sluice::kernels {

enum class MedianWork : std::uint8_t { median, choose, gather };

// Axes that are not there come first, with one voxel. A window begins at its voxel's cell of the
// framed array, which lies `half a window` before it.
template <class T>
struct MedianCall {
  std::int64_t volumes = 1, of[3] = {1, 1, 1};  // without the frame
  std::int64_t wide[3] = {1, 1, 1};             // of a window, odd
  const std::int64_t* by = nullptr;  // [count()]: a window's voxels, from its first, in order
  const T* image = nullptr;          // framed
  T* out = nullptr;                  // median: [volumes, of]; gather: framed
  // Of the backward pass: which of the window's voxels it was, and the gradient, [volumes, of].
  const T *median = nullptr, *grad = nullptr;
  std::int32_t* chosen = nullptr;

  SLUICE_HD std::int64_t count() const { return wide[0] * wide[1] * wide[2]; }
  SLUICE_HD std::int64_t voxels() const { return volumes * of[0] * of[1] * of[2]; }
  SLUICE_HD std::int64_t framed(int a) const { return of[a] + wide[a] - 1; }
  SLUICE_HD std::int64_t cells() const { return volumes * framed(0) * framed(1) * framed(2); }
  SLUICE_HD std::int64_t cell(std::int64_t voxel) const {
    const std::int64_t z = voxel % of[2], y = voxel / of[2] % of[1],
                       x = voxel / (of[2] * of[1]) % of[0], v = voxel / (of[2] * of[1] * of[0]);
    return ((v * framed(0) + x) * framed(1) + y) * framed(2) + z;
  }
};

// Of Lanes voxels of a row; `held` has room for median_held(count()) * Lanes.
template <class T, int Lanes>
SLUICE_HD inline void median_of(const MedianCall<T>& c, std::int64_t voxel, T* held) {
  const T* from = c.image + c.cell(voxel);
  median_select<T, Lanes>(c.count(), held, c.out + voxel,
                          [&](std::int64_t i) { return from + c.by[i]; });
}

// The first voxel of the window that has the median; -1: none, as where that is NaN.
template <class T>
SLUICE_HD inline void median_choose(const MedianCall<T>& c, std::int64_t voxel) {
  const T* from = c.image + c.cell(voxel);
  const std::int64_t count = c.count();
  std::int64_t i = 0;
  while (i < count && !(from[c.by[i]] == c.median[voxel])) ++i;
  c.chosen[voxel] = i < count ? static_cast<std::int32_t>(i) : -1;
}

// The gradient of a cell of the framed image.
template <class T>
SLUICE_HD inline void median_gather(const MedianCall<T>& c, std::int64_t cell) {
  const std::int64_t z = cell % c.framed(2), y = cell / c.framed(2) % c.framed(1),
                     x = cell / (c.framed(2) * c.framed(1)) % c.framed(0),
                     v = cell / (c.framed(2) * c.framed(1) * c.framed(0));
  const auto least = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; };
  const auto from = [&](std::int64_t at, int a) {  // the first window that reaches so far
    return at < c.wide[a] ? 0 : at - c.wide[a] + 1;
  };
  T sum = 0;
  for (std::int64_t i = from(x, 0); i <= least(x, c.of[0] - 1); ++i)
    for (std::int64_t j = from(y, 1); j <= least(y, c.of[1] - 1); ++j)
      for (std::int64_t k = from(z, 2); k <= least(z, c.of[2] - 1); ++k) {
        const std::int64_t voxel = ((v * c.of[0] + i) * c.of[1] + j) * c.of[2] + k,
                           tap = ((x - i) * c.wide[1] + y - j) * c.wide[2] + z - k;
        if (c.chosen[voxel] == tap) sum += c.grad[voxel];
      }
  c.out[cell] = sum;
}

}  // namespace sluice::kernels
