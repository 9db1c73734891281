// What colour jitter does to one pixel's red, green and blue: for the CPU's loops over blocks and
// for the CUDA kernels.
//
// Invariant: torchvision's arithmetic, operation by operation. Products are rounded before they are
// added to (the files that include this are compiled without contraction), and there are selections
// and no branches, so loops vectorise.
#pragma once

#include "kernels/base/intensity_math.h"

namespace sluice::kernels {

struct Rgb {
  float r = 0, g = 0, b = 0;
  SLUICE_HD float channel(int c) const { return c == 0 ? r : c == 1 ? g : b; }
};

// A colour's share of gray (ITU-R BT.601).
SLUICE_HD inline double gray_share(int channel) {
  return channel == 0 ? 0.2989 : channel == 1 ? 0.587 : 0.114;
}

// a b, never contracted with a sum that it goes into.
SLUICE_HD inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

SLUICE_HD inline float gray_of(const Rgb& c) {
  return product(static_cast<float>(gray_share(0)), c.r) +
         product(static_cast<float>(gray_share(1)), c.g) +
         product(static_cast<float>(gray_share(2)), c.b);
}

// share x + rest other, with rest = 1 - share.
SLUICE_HD inline float blended(float share, float x, float rest, float other) {
  return product(share, x) + product(rest, other);
}

SLUICE_HD inline float in_unit(float x) {  // a NaN stays one
  x = x < 0.0f ? 0.0f : x;
  return x > 1.0f ? 1.0f : x;
}

// To hue, saturation and value, a turn of the hue, and back; red, green and blue in 0..1.
[[gnu::always_inline]] SLUICE_HD inline Rgb turned(const Rgb& c, float by) {
  const float above = c.r > c.g ? c.r : c.g, below = c.r < c.g ? c.r : c.g;
  const float v = above > c.b ? above : c.b, least = below < c.b ? below : c.b;
  const float chroma = v - least;
  const float divisor = chroma == 0 ? 1.0f : chroma, s = chroma / (chroma == 0 ? 1.0f : v);
  // The colour that leads says which sixth of the circle; the other two, where in it.
  const bool red = v == c.r, green = v == c.g;
  const float first = red ? c.b : green ? c.r : c.g, second = red ? c.g : green ? c.b : c.r;
  const float sixth = red ? 0.0f : green ? 2.0f : 4.0f;
  float h = sixth + (v - first) / divisor - (v - second) / divisor;
  h = h / 6 + 1;
  h = h - floorf(h) + by;
  h = product(h - floorf(h), 6);
  const float sector = floorf(h), f = h - sector;
  const float p = in_unit(product(v, 1 - s)), q = in_unit(product(v, 1 - product(s, f)));
  const float t = in_unit(product(v, 1 - product(s, 1 - f)));
  const float k = sector < 6 ? sector : 0.0f;  // a hue just below 0 is rounded to a full turn
  return {k < 1   ? v
          : k < 2 ? q
          : k < 4 ? p
          : k < 5 ? t
                  : v,
          k < 1   ? t
          : k < 3 ? v
          : k < 4 ? q
                  : p,
          k < 2   ? p
          : k < 3 ? t
          : k < 5 ? v
                  : q};
}

}  // namespace sluice::kernels
