// exp and log for simd.h's vector types, by the usual range reduction and a polynomial (Cephes,
// Moshier 1992). Relative error below 3e-7 over the range they are used in.
//
// Invariant: no branches and no calls, so they inline into any loop; exp_v is for x <= 0 (below
// -87 it is 0), log_v for normal positive x.
#pragma once

#include "kernels/base/simd.h"

namespace sluice {

template <class V>
using IntOf = std::conditional_t<std::is_same_v<V, float>, std::int32_t, I16>;

template <class V>
SLUICE_INLINE inline IntOf<V> round_down(V v) {
  if constexpr (std::is_same_v<V, float>) {
    const auto i = static_cast<std::int32_t>(v);
    return i - (static_cast<float>(i) > v);
  } else {
    const I16 i = __builtin_convertvector(v, I16);
    return i + (__builtin_convertvector(i, F16) > v);  // a vector comparison is -1 where true
  }
}
template <class V>
SLUICE_INLINE inline V as_float(IntOf<V> i) {
  if constexpr (std::is_same_v<V, float>)
    return static_cast<float>(i);
  else
    return __builtin_convertvector(i, F16);
}

template <class V>
SLUICE_INLINE inline V exp_v(V x) {
  x = x < -87.f ? V{} - 87.f : x;
  const IntOf<V> n = round_down<V>(x * 1.44269504f + 0.5f);
  const V k = as_float<V>(n);
  const V r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  V y = r * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.f;
  return y * std::bit_cast<V>((n + 127) << 23);
}

template <class V>
SLUICE_INLINE inline V log_v(V x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2))
  const IntOf<V> bits = std::bit_cast<IntOf<V>>(x) - 0x3f3504f3;
  const V e = as_float<V>(bits >> 23);
  const V f = std::bit_cast<V>((bits & 0x007fffff) + 0x3f3504f3) - 1.f;
  V y = f * 7.0376836292e-2f - 1.1514610310e-1f;
  y = y * f + 1.1676998740e-1f;
  y = y * f - 1.2420140846e-1f;
  y = y * f + 1.4249322787e-1f;
  y = y * f - 1.6668057665e-1f;
  y = y * f + 2.0000714765e-1f;
  y = y * f - 2.4999993993e-1f;
  y = y * f + 3.3333331174e-1f;
  const V square = f * f;
  y = y * f * square - e * 2.12194440e-4f - 0.5f * square;
  return f + y + e * 0.693359375f;
}

}  // namespace sluice
