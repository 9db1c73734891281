// How likely the colours of a voxel are under a mixture of Gaussians. For host and device.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

// A component of D colours in memory: its factor, the mean [D], then rows of the lower triangle of
// L^-1, with which (x - m)^T S^-1 (x - m) = |L^-1 (x - m)|^2.
SLUICE_HD inline std::int64_t component_size(int colours) {
  return 1 + colours + colours * (colours + 1) / 2;
}

// Adds to `sum` what one component says of Lanes voxels; colour d of them is at x[d * stride].
// `scratch` has (1 + colours) * Lanes numbers.
template <class T, int Lanes>
SLUICE_HD inline void add_component(const T* component, int colours, const T* x,
                                    std::int64_t stride, T* scratch, T* sum) {
  const T* mean = component + 1;
  const T* row = mean + colours;
  T* square = scratch;
  for (int l = 0; l < Lanes; ++l) square[l] = 0;
  for (int d = 0; d < colours; ++d) {
    T* from = scratch + (1 + d) * Lanes;
    for (int l = 0; l < Lanes; ++l) from[l] = x[d * stride + l] - mean[d];
  }
  for (int d = 0; d < colours; row += ++d) {
    T dot[Lanes];
    for (int l = 0; l < Lanes; ++l) dot[l] = 0;
    for (int e = 0; e <= d; ++e) {
      const T* from = scratch + (1 + e) * Lanes;
      for (int l = 0; l < Lanes; ++l) dot[l] = mad(row[e], from[l], dot[l]);
    }
    for (int l = 0; l < Lanes; ++l) square[l] = mad(dot[l], dot[l], square[l]);
  }
  const T factor = component[0], half = T(-0.7213475204444817);  // -log2(e) / 2
  for (int l = 0; l < Lanes; ++l) sum[l] = mad(factor, power_of_two(half * square[l]), sum[l]);
}

}  // namespace sluice::kernels
