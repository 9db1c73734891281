// One axis of one sample: from a coordinate to the two voxels it lies between and their weights.
// Plain inline functions for host and device; the loops around them are in resample.cpp.
//
// Invariant: the voxels named are always inside the axis, whatever the coordinate; what padding
// means is all in the coordinate and the weights, so the loops that read voxels have no branches.
//
//     voxel      0     1     2          coordinate 1.25: cell 1, weights 0.75, 0.25
//     zeros   ---+--\--+-----+--\---    beyond the last centre the weights fade to 0 in one voxel
//     border  000+-----+-----+22222     the coordinate stops at the outer centres
//     reflect 01|+-----+-----+|21       mirrored at the outer faces (align_corners: centres)
#pragma once

#include <cmath>
#include <cstdint>

#ifndef SLUICE_HD
#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif
#endif

namespace sluice {

enum class Interpolation : std::uint8_t { nearest, linear };
enum class Padding : std::uint8_t {
  zeros,
  border,
  reflection,
  none,  // the caller knows that the coordinate is inside
};

// What padding and interpolation need to know of an axis of n voxels, made once a volume.
struct SampledAxis {
  double last;         // n - 1
  double mirror_low;   // where reflection turns: -0.5, or 0 with aligned corners
  double mirror_span;  // n, or n - 1
  double top_cell;     // n - 2, at least 0
  float has_next;      // 0 where n = 1: there is no second voxel
  std::int32_t step;   // elements to the next voxel; 0 where there is none

  static SampledAxis make(std::int64_t n, std::int64_t stride, bool align_corners) {
    const double d = static_cast<double>(n);
    return {d - 1,
            align_corners ? 0.0 : -0.5,
            align_corners ? d - 1 : d,
            n > 1 ? d - 2 : 0,
            n > 1 ? 1.0f : 0.0f,
            n > 1 ? static_cast<std::int32_t>(stride) : 0};
  }
};

SLUICE_HD inline double clamp_to(double c, double low, double high) {
  c = c > low ? c : low;  // a NaN becomes `low`
  return c < high ? c : high;
}

SLUICE_HD inline double reflect(double c, double low, double span) {
  if (span <= 0) return 0;
  const double d = std::fabs(c - low);
  const double turns = std::floor(d / span);
  const double rest = d - turns * span;
  const bool odd = turns - 2 * std::floor(turns * 0.5) > 0.5;
  return (odd ? span - rest : rest) + low;
}

template <Padding P>
SLUICE_HD inline double padded(const SampledAxis& a, double c) {
  if constexpr (P == Padding::border) return clamp_to(c, 0, a.last);
  if constexpr (P == Padding::reflection)
    return clamp_to(reflect(c, a.mirror_low, a.mirror_span), 0, a.last);
  return c;
}

// The lower voxel and the weights of it and the next one.
template <Padding P>
SLUICE_HD inline std::int32_t linear_tap(const SampledAxis& a, double c, float& w0, float& w1) {
  c = padded<P>(a, c);
  if constexpr (P == Padding::none) {
    const double cell = std::floor(c);
    w1 = static_cast<float>(c - cell);
    w0 = 1.0f - w1;
    return static_cast<std::int32_t>(cell);
  } else {
    // Tents around both voxels: outside the volume they fall to 0 without a test.
    const double cell = clamp_to(std::floor(c), 0, a.top_cell);
    const float t = static_cast<float>(clamp_to(c - cell, -2, 3));
    const float u0 = 1.0f - std::fabs(t), u1 = 1.0f - std::fabs(t - 1.0f);
    w0 = u0 > 0 ? u0 : 0;
    w1 = (u1 > 0 ? u1 : 0) * a.has_next;
    return static_cast<std::int32_t>(cell);
  }
}

// The nearest voxel (half to even) and whether it counts: outside it does not under `zeros`.
template <Padding P>
SLUICE_HD inline std::int32_t nearest_tap(const SampledAxis& a, double c, bool& inside) {
  const double r = std::nearbyint(padded<P>(a, c));
  inside = P != Padding::zeros || (r >= 0 && r <= a.last);
  return static_cast<std::int32_t>(clamp_to(r, 0, a.last));
}

}  // namespace sluice
