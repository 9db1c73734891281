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

// Of n voxels, [colours, n], the shares of the classes, [classes, n].
template <class T>
struct MixtureCall {
  int colours = 1;
  std::int64_t n = 0, classes = 1, components = 1;  // components of each class
  const T* packed = nullptr;                        // [classes, components, component_size]
  const T* image = nullptr;
  T* out = nullptr;
};

// Of Lanes voxels; `density` has a number for each class and lane, those of a class `stride` after
// those of the one before. It may be where the shares are written.
template <class T, int Lanes>
SLUICE_HD inline void mixture_shares(const MixtureCall<T>& call, std::int64_t i, T* scratch,
                                     T* density, std::int64_t stride) {
  T total[Lanes];
  for (int l = 0; l < Lanes; ++l) total[l] = 0;
  const T* component = call.packed;
  for (std::int64_t k = 0; k < call.classes; ++k) {
    T* sum = density + k * stride;
    for (int l = 0; l < Lanes; ++l) sum[l] = 0;
    for (std::int64_t s = 0; s < call.components; ++s, component += component_size(call.colours))
      add_component<T, Lanes>(component, call.colours, call.image + i, call.n, scratch, sum);
    for (int l = 0; l < Lanes; ++l) total[l] += sum[l];
  }
  for (std::int64_t k = 0; k < call.classes; ++k)
    for (int l = 0; l < Lanes; ++l)
      call.out[k * call.n + i + l] = total[l] > 0 ? density[k * stride + l] / total[l] : T(0);
}

}  // namespace sluice::kernels
