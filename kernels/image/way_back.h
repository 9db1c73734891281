// The way back of a step that moved whole voxels: flips, permutations, crops and pads. No tensors
// here.
//
//   before   a b c d e       the crop's result   b c d      back   0 b c d 0
#pragma once

#include <cmath>
#include <optional>

#include "kernels/image/affine.h"

namespace sluice {

// The axes reordered, then the box that begins at `start`: what was cut away sticks out of it.
struct WayBack {
  Reorder order;
  Shape3 start{};
};

// `to_source` leads from the grid before the step to the one after it, which has `shape`. None
// where a voxel of the one is no voxel of the other.
inline std::optional<WayBack> way_back(const Affine& to_source, const Shape3& shape) {
  WayBack back;
  std::array<bool, 3> taken{};
  for (std::size_t row = 0; row < 3; ++row) {
    int axis = -1;
    for (std::size_t c = 0; c < 3; ++c) {
      const double m = to_source[4 * row + c];
      if (std::abs(m) < 1e-5) continue;
      if (axis >= 0 || std::abs(std::abs(m) - 1) > 1e-5) return std::nullopt;
      axis = static_cast<int>(c);
    }
    if (axis < 0 || taken[static_cast<std::size_t>(axis)]) return std::nullopt;
    const auto to = static_cast<std::size_t>(axis);
    taken[to] = true;
    const bool flip = to_source[4 * row + to] < 0;
    const double shift = to_source[4 * row + 3];
    const double start = flip ? static_cast<double>(shape[row] - 1) - shift : shift;
    if (std::abs(start - std::nearbyint(start)) > 1e-3) return std::nullopt;
    back.order.from[to] = static_cast<int>(row);
    back.order.flip[to] = flip;
    back.start[to] = std::llround(start);
  }
  return back;
}

}  // namespace sluice
