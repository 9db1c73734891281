// Vectors of 16 floats in GCC's own vector notation, loops over them that are compiled twice (for
// the build's instruction set and for AVX-512, picked at run time), and bfloat16 at either end.
//
// A loop's body is written once for a type V that is F16 or, for the last few values, float:
//
//   each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
//     store(y + i, load<V>(x + i) * 2.f);
//   });
//
// Invariant: one machine always takes the same side, so results repeat bit for bit on it; between
// machines the last bits may differ.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/cpu.h"

// Every function that passes a vector is inlined, so its calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

#define SLUICE_INLINE __attribute__((always_inline))
#if defined(__x86_64__)
#define SLUICE_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]]
#else
#define SLUICE_AVX512
#endif

namespace sluice {

// As wide as x86-64-v3's registers; on aarch64 two of NEON's 32, where x86-64-v3 has 16.
using F8 = float __attribute__((vector_size(32)));
using F16 = float __attribute__((vector_size(64)));
using I16 = std::int32_t __attribute__((vector_size(64)));
using U16 = std::uint32_t __attribute__((vector_size(64)));
using H16 = std::uint16_t __attribute__((vector_size(32)));
using Bf16Bits = std::uint16_t;

#if defined(__x86_64__)
inline bool has_avx512() {
  static const bool yes = cpu_level() >= CpuLevel::avx512;
  return yes;
}
#else
constexpr bool has_avx512() { return false; }
#endif

template <class F>
SLUICE_AVX512 [[gnu::noinline]] void run_wide(const F& body) {
  body();
}
// Calls `body`, a lambda marked SLUICE_INLINE whose callees are too.
template <class F>
void simd(const F& body) {
  if (has_avx512())
    run_wide(body);
  else
    body();
}

// body(V, i) for i over [0, n) in steps of V's width.
template <class F>
SLUICE_INLINE inline void each(std::int64_t n, const F& body) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(F16{}, i);
  for (; i < n; ++i) body(0.f, i);
}

// Round to nearest even; a NaN stays a NaN.
SLUICE_INLINE inline Bf16Bits to_bf16(float v) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<Bf16Bits>((u >> 16) | 0x40u);
  return static_cast<Bf16Bits>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
SLUICE_INLINE inline float from_bf16(Bf16Bits v) {
  return std::bit_cast<float>(std::uint32_t{v} << 16);
}

template <class V>
SLUICE_INLINE inline V load(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
SLUICE_INLINE inline V load(const Bf16Bits* p) {
  if constexpr (std::is_same_v<V, float>) {
    return from_bf16(*p);
  } else {
    H16 h;
    std::memcpy(&h, p, sizeof h);
    return std::bit_cast<F16>(__builtin_convertvector(h, U16) << 16);
  }
}

template <class V>
SLUICE_INLINE inline V sqrt_v(const V& v) {
  if constexpr (std::is_same_v<V, float>) {
    return __builtin_sqrtf(v);
  } else {
    float lanes[16];  // a loop that becomes one instruction
    std::memcpy(lanes, &v, sizeof v);
    for (float& lane : lanes) lane = __builtin_sqrtf(lane);
    V out;
    std::memcpy(&out, lanes, sizeof out);
    return out;
  }
}

template <class V>
SLUICE_INLINE inline void store(float* p, const V& v) {
  std::memcpy(p, &v, sizeof v);
}
template <class V>
SLUICE_INLINE inline void store(Bf16Bits* p, const V& v) {
  if constexpr (std::is_same_v<V, float>) {
    *p = to_bf16(v);
  } else {
    const U16 u = std::bit_cast<U16>(v);
    const U16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const U16 nan = (u >> 16) | 0x40u;
    const H16 h = __builtin_convertvector((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded, H16);
    std::memcpy(p, &h, sizeof h);
  }
}

}  // namespace sluice
