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

#include "kernels/base/lanes.h"

namespace sluice {

enum class Interpolation : std::uint8_t { nearest, linear };
enum class Padding : std::uint8_t {
  zeros,
  border,
  reflection,
  none,  // the caller knows that the coordinate is inside
};

// What padding and interpolation need to know of an axis of n voxels, in coordinates whose 0 is
// voxel `origin`: a block of a row takes an origin nearby, and then float is exact enough.
template <class Real>
struct SampledAxis {
  Real first, last;   // the outer voxels: 0 and n - 1, less the origin
  Real mirror;        // where reflection turns: the first voxel's face, or centre
  Real mirror_span;   // from there to the other turn: n, or n - 1
  Real top_cell;      // the last voxel that has a next one
  Real has_next;      // 0 where n = 1: there is no second voxel
  std::int32_t step;  // elements to the next voxel; 0 where there is none
  std::int32_t origin;

  SLUICE_HD static SampledAxis make(std::int64_t n, std::int64_t stride, bool align_corners) {
    const Real size = static_cast<Real>(n);
    return {0,
            size - 1,
            static_cast<Real>(align_corners ? 0 : -0.5),
            align_corners ? size - 1 : size,
            n > 1 ? size - 2 : 0,
            static_cast<Real>(n > 1 ? 1 : 0),
            n > 1 ? static_cast<std::int32_t>(stride) : 0,
            0};
  }
  SLUICE_HD SampledAxis from(std::int32_t o) const {
    const Real r = static_cast<Real>(o);
    return {first - r, last - r, mirror - r, mirror_span, top_cell - r, has_next, step, o};
  }
};

template <class Real>
SLUICE_HD inline Real clamp_to(Real c, Real low, Real high) {
  c = c > low ? c : low;  // a NaN becomes `low`
  return c < high ? c : high;
}

template <class Real>
SLUICE_HD inline Real reflect(Real c, Real mirror, Real span) {
  const Real d = std::fabs(c - mirror);
  const Real turns = span > 0 ? std::floor(d / span) : 0;
  const Real rest = span > 0 ? d - turns * span : 0;
  const bool odd = turns - 2 * std::floor(turns / 2) > Real(0.5);
  return (odd ? span - rest : rest) + mirror;
}

template <Padding P, class Real>
SLUICE_HD inline Real padded(const SampledAxis<Real>& a, Real c) {
  if constexpr (P == Padding::border) return clamp_to(c, a.first, a.last);
  if constexpr (P == Padding::reflection)
    return clamp_to(reflect(c, a.mirror, a.mirror_span), a.first, a.last);
  return c;
}

// The lower voxel (counted from the volume's first) and the weights of it and the next one.
template <Padding P, class Real>
SLUICE_HD inline std::int32_t linear_tap(const SampledAxis<Real>& a, Real c, float& w0, float& w1) {
  if constexpr (P == Padding::none) {
    const Real cell = std::floor(c);
    w1 = static_cast<float>(c - cell);
    w0 = 1.0f - w1;
    return static_cast<std::int32_t>(cell) + a.origin;
  }
  c = padded<P>(a, c);
  const Real cell = clamp_to(std::floor(c), a.first, a.top_cell);
  // Tents around both voxels: outside the volume they fall to 0 without a test.
  const Real t = c - cell, u0 = 1 - std::fabs(t), u1 = 1 - std::fabs(t - 1);
  w0 = static_cast<float>(u0 > 0 ? u0 : 0);
  w1 = static_cast<float>((u1 > 0 ? u1 : 0) * a.has_next);
  return static_cast<std::int32_t>(cell) + a.origin;
}

// The nearest voxel (half to even) and whether it counts (1 or 0): outside, `zeros` leaves 0.
template <Padding P, class Real>
SLUICE_HD inline std::int32_t nearest_tap(const SampledAxis<Real>& a, Real c,
                                          std::int32_t& inside) {
  const Real r = std::nearbyint(padded<P>(a, c));
  inside = P != Padding::zeros
               ? 1
               : static_cast<std::int32_t>(r >= a.first) & static_cast<std::int32_t>(r <= a.last);
  return static_cast<std::int32_t>(clamp_to(r, a.first, a.last)) + a.origin;
}

}  // namespace sluice
