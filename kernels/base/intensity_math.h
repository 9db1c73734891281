// What happens to one voxel: small functors that the CPU loops and the CUDA kernels share.
//
// Invariant: pure functions of their arguments; all but SoftClip without libm. The logarithm,
// power, sine and cosine below are short series on reduced arguments, so loops over them vectorise,
// and a voxel does not depend on the machine's C library. Errors stay below 3e-7 of the result's
// scale. Every product that is added to is a fused multiply-add by name and nothing is left for a
// compiler to contract, so host and device compute the same bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "engine/base/philox.h"

namespace sluice::kernels {

// ---- elementary functions -----------------------------------------------------------------------

SLUICE_HD inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
SLUICE_HD inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// a b + c, rounded once.
SLUICE_HD inline float mad(float a, float b, float c) { return fmaf(a, b, c); }

// Whether `now` is the larger one where `best` came first: of equal ones the first is, and a NaN is
// larger than all numbers, as torch.argmax has it.
SLUICE_HD inline bool outranks(float now, float best) {
  return static_cast<int>(!(now <= best)) & static_cast<int>(best == best);
}

// log2 of a positive normal number, exact at powers of two. With x = 2^e m and m in
// [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m-1)/(m+1): |s| < 0.172, five terms.
SLUICE_HD inline float log2_positive(float x) {
  constexpr std::uint32_t sqrt_half = 0x3f3504f3u;
  const std::uint32_t bits = bits_of(x);
  const std::int32_t e = static_cast<std::int32_t>(bits - sqrt_half) >> 23;
  const float m = float_of(bits - (static_cast<std::uint32_t>(e) << 23));
  const float s = (m - 1.0f) / (m + 1.0f);
  const float q = s * s;
  const float series = mad(q, mad(q, mad(q, mad(q, 1 / 9.0f, 1 / 7.0f), 1 / 5.0f), 1 / 3.0f), 1.0f);
  return mad(2.885390081777927f * s, series, static_cast<float>(e));  // 2 / ln 2
}

// 2^y, from 2^-126 to 2^127: beyond them the bound. With y = n + f and |f| <= 1/2, 2^f = e^(f ln
// 2).
SLUICE_HD inline float exp2_bounded(float y) {
  y = y < -126.0f ? -126.0f : y;
  y = y > 127.0f ? 127.0f : y;
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float n = (y + to_integer) - to_integer;
  const float t = (y - n) * 0.6931471805599453f;
  float series = mad(t, 1 / 5040.0f, 1 / 720.0f);
  series = mad(t, mad(t, mad(t, series, 1 / 120.0f), 1 / 24.0f), 1 / 6.0f);
  series = mad(t, mad(t, mad(t, series, 1 / 2.0f), 1.0f), 1.0f);
  const std::int32_t exponent = static_cast<std::int32_t>(n) + 127;
  return series * float_of(static_cast<std::uint32_t>(exponent) << 23);
}

SLUICE_HD inline float exp_bounded(float y) { return exp2_bounded(y * 1.4426950408889634f); }

// x^g for x in [0, 1] and g > 0; of what is no number, no number.
SLUICE_HD inline float pow_unit(float x, float g) {
  const float y = exp2_bounded(g * log2_positive(x));
  return x < 0x1.0p-126f ? 0.0f : mad(x, 0.0f, y);  // 0: not a normal number
}

// Sine and cosine of t turns, t in [0, 1): quadrant q and a rest of at most an eighth turn.
SLUICE_HD inline void sincos_turn(float t, float& sine, float& cosine) {
  const std::int32_t q = static_cast<std::int32_t>(mad(t, 4.0f, 0.5f));
  const float a = mad(static_cast<float>(q), -0.25f, t) * 6.283185307179586f;
  const float b = a * a;
  const float s =
      a * mad(b, mad(b, mad(b, mad(b, 1 / 362880.0f, -1 / 5040.0f), 1 / 120.0f), -1 / 6.0f), 1.0f);
  const float c =
      mad(b, mad(b, mad(b, mad(b, 1 / 40320.0f, -1 / 720.0f), 1 / 24.0f), -1 / 2.0f), 1.0f);
  const float up = (q & 1) ? c : s;
  const float across = (q & 1) ? s : c;
  sine = (q & 2) ? -up : up;
  cosine = ((q + 1) & 2) ? -across : across;
}

// Two standard normals from two words, as normal_pair of engine/base/philox.h.
SLUICE_HD inline void normal_pair_fast(std::uint32_t a, std::uint32_t b, float& x, float& y) {
  const float u = (static_cast<float>(a >> 9) + 0.5f) * 0x1.0p-23f;  // never 0, never 1
  float sine, cosine;
  sincos_turn(unit_float(b), sine, cosine);
  const float radius = sqrtf(-1.3862943611198906f * log2_positive(u));  // sqrt(-2 ln u)
  x = radius * cosine;
  y = radius * sine;
}

// ---- functors: one voxel in, one voxel out ------------------------------------------------------

struct Linear {
  float gain = 1, offset = 0;
  SLUICE_HD float operator()(float x) const { return mad(x, gain, offset); }
};

// (x - mean) / std; with `nonzero` a voxel that is exactly 0 stays 0.
struct Normalize {
  float mean = 0, std = 1;
  bool nonzero = false;
  SLUICE_HD float operator()(float x) const {
    const float y = (x - mean) / std;
    return nonzero && x == 0.0f ? x : y;
  }
};

// (x - low) / range * gain + offset, then held between `least` and `most`. NaN stays NaN.
struct Rescale {
  float low = 0, range = 1, gain = 1, offset = 0;
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
  SLUICE_HD float operator()(float x) const {
    float y = mad((x - low) / range, gain, offset);
    y = y < least ? least : y;
    return y > most ? most : y;
  }
};

// MONAI's ScaleIntensityRange: [a_min, a_max] to [b_min, b_max], or to [0, 1] where a bound is not
// set; equal input bounds only shift, and then nothing is clipped.
inline Rescale rescale(double a_min, double a_max, std::optional<double> b_min,
                       std::optional<double> b_max, bool clip) {
  Rescale f;
  f.low = static_cast<float>(a_min);
  if (a_min == a_max) {
    f.offset = static_cast<float>(b_min.value_or(0));
    return f;
  }
  f.range = static_cast<float>(a_max - a_min);
  if (b_min && b_max) {
    f.gain = static_cast<float>(*b_max - *b_min);
    f.offset = static_cast<float>(*b_min);
  }
  if (clip && b_min) f.least = static_cast<float>(*b_min);
  if (clip && b_max) f.most = static_cast<float>(*b_max);
  return f;
}

// x + a normal number: mean + std * n.
SLUICE_HD inline float noisy(float x, float mean, float std, float n) {
  return x + mad(std, n, mean);
}

// x + softplus(-s (x - low)) / s - softplus(s (x - high)) / s, a clip with round corners; an
// infinite bound is none.
struct SoftClip {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  float sharpness = 1;
  SLUICE_HD float operator()(float x) const {
    float y = x;
    if (std::isfinite(low)) y += softplus(-sharpness * (x - low)) / sharpness;
    if (std::isfinite(high)) y -= softplus(sharpness * (x - high)) / sharpness;
    return y;
  }
  SLUICE_HD static float softplus(float t) { return log1pf(expf(-fabsf(t))) + (t > 0 ? t : 0); }
};

// x + offset; with `nonzero` a voxel that is exactly 0 stays 0.
struct Shift {
  float offset = 0;
  bool nonzero = false;
  SLUICE_HD float operator()(float x) const { return nonzero && x == 0.0f ? x : x + offset; }
};

// sign * (((sign x - low) / (range + 1e-7)) ^ gamma * range + low), MONAI's AdjustContrast; low and
// range are those of sign * x.
struct Contrast {
  float low = 0, range = 1, gamma = 1, sign = 1;
  SLUICE_HD float operator()(float x) const {
    const float unit = mad(sign, x, -low) / (range + 1e-7f);
    return sign * mad(pow_unit(unit, gamma), range, low);
  }
};

}  // namespace sluice::kernels
