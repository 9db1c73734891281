// Where the voxels of a resized axis read, as scipy's zoom with grid_mode and scikit-image's resize
// have it: the outer faces stay.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sluice {

// Of voxel i of `to`, in an axis of `from` voxels.
inline double stretched_place(std::int64_t i, std::int64_t from, std::int64_t to) {
  return (static_cast<double>(i) + 0.5) * (static_cast<double>(from) / static_cast<double>(to)) -
         0.5;
}

inline std::int64_t nearest_voxel(double x, std::int64_t n) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(x + 0.5)), 0, n - 1);
}

// [C, X, Y, Z] with spatial axis `axis` resized by the nearest slices.
inline at::Tensor nearest_slices(const at::Tensor& volume, int axis, std::int64_t to) {
  const std::int64_t from = volume.size(axis + 1);
  if (from == to) return volume;
  at::Tensor index = at::empty({to}, at::kLong);
  for (std::int64_t i = 0; i < to; ++i)
    index.mutable_data_ptr<std::int64_t>()[i] = nearest_voxel(stretched_place(i, from, to), from);
  return volume.index_select(axis + 1, index);
}

}  // namespace sluice
