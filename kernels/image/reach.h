// What the transforms of an image cut away of it: voxels that come back as 0 when it returns to the
// grid that it had first.
//
// Each transform cuts along those of its axes that it does not turn. Of a turned one nothing says
// whether it was meant to cut: what it does not reach takes the rim's values.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

struct Grid {
  Affine affine;
  Shape3 shape{1, 1, 1};
};

// One axis of a later grid, in voxels of the first one: of (x, y, z) stays what lies on it.
struct Cut {
  std::array<double, 4> row{};
  double last = 0;  // the axis' last voxel

  double place(double x, double y, double z) const {
    return row[0] * x + row[1] * y + row[2] * z + row[3];
  }
  // Or at most half a voxel beside it: a grid of larger voxels may end that much before the image
  // does.
  static constexpr double edge = 0.5 + 1e-3;
  bool keeps(double at) const { return at >= -edge && at <= last + edge; }
};

// Whether axis `row` of where `m` leads to is one axis of where it comes from, and that alone.
inline bool lies_along_one(const Affine& m, std::size_t row) {
  const auto is_there = [&](std::size_t r, std::size_t c) { return std::abs(m[4 * r + c]) > 1e-6; };
  int found = 0, shared = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    if (!is_there(row, c)) continue;
    ++found;
    for (std::size_t r = 0; r < 3; ++r) shared += r != row && is_there(r, c);
  }
  return found == 1 && shared == 0;
}

// `grids`: those that the image went through, its first one first, its present one last. Cuts that
// leave the first grid whole are left out.
inline std::vector<Cut> cuts_of(const std::vector<Grid>& grids) {
  std::vector<Cut> cuts;
  for (std::size_t g = 1; g < grids.size(); ++g) {
    const Affine to_grid = inverse(grids[g].affine), step = multiply(to_grid, grids[g - 1].affine),
                 from_first = multiply(to_grid, grids[0].affine);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (!lies_along_one(step, axis)) continue;
      Cut cut{{}, static_cast<double>(grids[g].shape[axis] - 1)};
      double least = from_first[4 * axis + 3], most = least;
      for (std::size_t d = 0; d < 4; ++d) {
        cut.row[d] = from_first[4 * axis + d];
        if (d == 3) continue;
        const double far = cut.row[d] * static_cast<double>(grids[0].shape[d] - 1);
        (far < 0 ? least : most) += far;
      }
      if (!cut.keeps(least) || !cut.keeps(most)) cuts.push_back(cut);
    }
  }
  return cuts;
}

}  // namespace sluice
