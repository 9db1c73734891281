// Linear maps that work along each axis by itself (resizing, smoothing, grid distortion), and
// copying voxels by index along each axis (nearest neighbours, padding).
//
// A Band says for each voxel of an axis of the result which source voxels it takes, with which
// weights. A result is made plane by plane: x, then y, then z, each from a buffer that stays in
// the cache; no temporary volume.
//
//   linear, 4 -> 7   cells 0 0 0 1 1 2 3     three taps   cells - 0 1 2     - : weight 0
//                          1 1 1 2 2 3 3                        0 1 2 3
//                                                               1 2 3 -
//
// Invariant: the sum of a voxel is taken in the same order whatever the threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/image/affine.h"
#include "kernels/image/sampling.h"

namespace sluice {

struct Band {
  std::int64_t size = 0;  // voxels of the result
  int taps = 0;
  std::vector<std::int32_t> cell;  // [taps][size], always inside the source
  std::vector<float> weight;       // [taps][size]
  std::vector<float> filter;       // not empty: the same taps around every voxel
  bool keeps() const { return filter.size() == 1 && filter[0] == 1; }
};
using Bands = std::array<Band, 3>;

// weights[t] for voxel i + t - weights.size() / 2, of an axis of n voxels with zeros around it.
Band filter_axis(std::int64_t n, std::vector<float> weights);
inline Band keep_axis(std::int64_t n) { return filter_axis(n, {1.0f}); }
// Linear interpolation at the given coordinates.
Band sample_axis(std::int64_t n, const std::vector<double>& at, Padding padding);

// [C, X, Y, Z] of any type -> float32; where `into` is defined, there (into.h), which is not the
// volume itself.
at::Tensor map_axes(const at::Tensor& volume, const Bands& bands, bool parallel = false,
                    const at::Tensor& into = {});

// Voxels by index, `value` where the index is -1; any type, which stays.
using Picks = std::array<std::vector<std::int32_t>, 3>;
std::vector<std::int32_t> pick_axis(std::int64_t n);  // 0 .. n - 1
// The voxels nearest to the given coordinates.
std::vector<std::int32_t> nearest_axis(std::int64_t n, const std::vector<double>& at,
                                       Padding padding);
at::Tensor pick(const at::Tensor& volume, const Picks& picks, double value = 0,
                bool parallel = false, const at::Tensor& into = {});
// The voxels of a band's axis that `voxels` names, in that order.
Band picked(const Band& band, const std::vector<std::int32_t>& voxels);

}  // namespace sluice
