// What a transform that samples between voxels records of how it did, and how that is read where it
// is undone (turning_back.h).
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/image/resample.h"

namespace sluice {

// Its values, then interpolation and padding as their enums' numbers; with align_corners it is
// -1 - padding.
inline std::vector<double> with_sampling(std::vector<double> values, const Sampling& how) {
  const auto padding = static_cast<double>(how.padding);
  values.insert(values.end(), {double(how.mode), how.align_corners ? -1 - padding : padding});
  return values;
}
inline void read_sampling(const std::vector<double>& values, Sampling& how) {
  const double padding = values.back();
  how.align_corners = padding < 0;
  how.padding = static_cast<Padding>(how.align_corners ? -1 - padding : padding);
}

// PyTorch's grid for align_corners, as MONAI asks for it: its point on an axis of one voxel is half
// a voxel from that voxel's centre, and in a source of one voxel every point is that voxel.
inline Affine on_aligned_grid(Affine to_source, const Shape3& from, const Shape3& to) {
  for (std::size_t d = 0; d < 3; ++d)
    for (std::size_t row = 0; row < 3 && to[d] == 1; ++row)
      to_source[4 * row + 3] += 0.5 * to_source[4 * row + d];
  for (std::size_t d = 0; d < 3; ++d)
    if (from[d] == 1) std::fill_n(to_source.begin() + static_cast<long>(4 * d), 4, 0.0);
  return to_source;
}

}  // namespace sluice
