// Which voxels of a grid another one reaches: what an image that was cropped can say of the one
// that it came from.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/image/affine.h"

namespace sluice {

// [begin, end) by axis.
struct Reach {
  Shape3 begin{}, end{};
};

// Of a grid's voxels those whose place lies in the source, or at most half a voxel beside it: a
// grid of larger voxels may end that much before the image does. All of an axis that lies along no
// axis of the source.
inline Reach reach_of(const Shape3& source, const Affine& to_source, const Shape3& shape) {
  constexpr double edge = 0.5 + 1e-3, nothing = 1e-6;
  const auto entry = [&](std::size_t row, std::size_t column) {
    return to_source[row * 4 + column];
  };
  const auto is_only = [&](std::size_t row, std::size_t column) {
    for (std::size_t other = 0; other < 3; ++other) {
      if (other != row && std::abs(entry(other, column)) > nothing) return false;
      if (other != column && std::abs(entry(row, other)) > nothing) return false;
    }
    return std::abs(entry(row, column)) > nothing;
  };
  Reach all{{}, shape};
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::size_t row = 0; row < 3; ++row) {
      if (!is_only(row, axis)) continue;
      const double last = static_cast<double>(source[row] - 1);
      double from = (-edge - entry(row, 3)) / entry(row, axis),
             to = (last + edge - entry(row, 3)) / entry(row, axis);
      if (from > to) std::swap(from, to);
      const auto bounded = [&](double at) {
        return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(shape[axis])));
      };
      all.begin[axis] = bounded(std::ceil(from));
      all.end[axis] = std::max(all.begin[axis], bounded(std::floor(to) + 1));
    }
  return all;
}

}  // namespace sluice
