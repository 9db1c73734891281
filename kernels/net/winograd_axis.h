// Winograd's convolution along one axis (direct_conv_winograd.h): what stands in the place of the
// numbers of a tile, six sums, which are values of polynomials at 0, a, -a, b, -b and infinity.
// With a = sqrt(1/2) and b = sqrt(2) their error, along two axes, is less than that of the usual
// points 1 and 2 along one (Barabasz et al. 2020 look for such points).
//
// V: 16 channels, or one. Every function is inlined, so that numbers stay in registers.
#pragma once

#include <cstdint>

#include "kernels/base/simd.h"

namespace sluice::winograd {

inline constexpr std::int64_t sums = 6, most_outputs = 4, most_kernel = 5;
inline constexpr float a = 0.707106781F, b = 1.414213562F;

// What a tile has with a kernel of so many numbers.
inline std::int64_t outputs_of_tile(std::int64_t kernel) { return sums + 1 - kernel; }

// B' of six inputs.
template <class V>
SLUICE_INLINE inline void of_inputs(const V (&d)[6], V (&s)[6]) {
  const V even = d[4] - d[2] * 2.F, odd = (d[3] - d[1] * 2.F) * a, even2 = d[4] - d[2] * 0.5F,
          odd2 = (d[3] - d[1] * 0.5F) * b;
  s[0] = d[0] - d[2] * 2.5F + d[4];
  s[1] = even + odd;
  s[2] = even - odd;
  s[3] = even2 + odd2;
  s[4] = even2 - odd2;
  s[5] = d[1] - d[3] * 2.5F + d[5];
}

// A' of six sums: a tile's outputs, of which `last` is the last.
template <class V>
SLUICE_INLINE inline void to_outputs(const V (&m)[6], std::int64_t last, V (&y)[4]) {
  const V even = m[1] + m[2], odd = (m[1] - m[2]) * a, even2 = m[3] + m[4],
          odd2 = (m[3] - m[4]) * b;
  y[0] = m[0] + even + even2;
  y[1] = odd + odd2;
  y[2] = even * 0.5F + even2 * 2.F;
  y[3] = odd * 0.5F + odd2 * 2.F;
  y[last] += m[5];
}

// A of a tile's outputs; those after the last are zero.
template <class V>
SLUICE_INLINE inline void of_outputs(const V (&g)[4], std::int64_t last, V (&s)[6]) {
  const V even = g[0] + g[2] * 0.5F, odd = (g[1] + g[3] * 0.5F) * a, even2 = g[0] + g[2] * 2.F,
          odd2 = (g[1] + g[3] * 2.F) * b;
  s[0] = g[0];
  s[1] = even + odd;
  s[2] = even - odd;
  s[3] = even2 + odd2;
  s[4] = even2 - odd2;
  s[5] = g[last];
}

// G of a kernel, divided by products of the points' differences.
template <class V>
SLUICE_INLINE inline void of_kernel(const V* w, std::int64_t width, V (&s)[6]) {
  V even{}, odd{}, even2{}, odd2{};
  float small = 1, large = 1;  // powers of a and b
  for (std::int64_t t = 0; t < width; ++t, small *= a, large *= b) {
    (t % 2 ? odd : even) += w[t] * small;
    (t % 2 ? odd2 : even2) += w[t] * large;
  }
  s[0] = w[0];
  s[1] = (even + odd) * (-2 / 3.F);
  s[2] = (even - odd) * (-2 / 3.F);
  s[3] = (even2 + odd2) * (1 / 6.F);
  s[4] = (even2 - odd2) * (1 / 6.F);
  s[5] = w[width - 1];
}

// G' of six sums; numbers past the width are without meaning.
template <class V>
SLUICE_INLINE inline void to_kernel(const V (&m)[6], std::int64_t width, V (&w)[most_kernel]) {
  float small = -2 / 3.F, large = 1 / 6.F;
  for (std::int64_t t = 0; t < most_kernel; ++t, small *= a, large *= b)
    w[t] = t % 2 ? (m[1] - m[2]) * small + (m[3] - m[4]) * large
                 : (m[1] + m[2]) * small + (m[3] + m[4]) * large;
  w[0] += m[0];
  w[width - 1] += m[5];
}

}  // namespace sluice::winograd
