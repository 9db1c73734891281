// The number types that volumes and batches are kept in, as bits that host and device convert to
// float and back in the same way (round to nearest even; which NaN comes of one is the device's).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/base/intensity_math.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace sluice::kernels {

enum class VoxelType : std::uint8_t { f32, f16, bf16, i16, u8 };

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

SLUICE_HD inline float to_float(float v) { return v; }
SLUICE_HD inline float to_float(std::int16_t v) { return static_cast<float>(v); }
SLUICE_HD inline float to_float(std::uint8_t v) { return static_cast<float>(v); }
SLUICE_HD inline float to_float(Brain v) {
  return float_of(static_cast<std::uint32_t>(v.bits) << 16);
}
SLUICE_HD inline float to_float(Half v) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(v.bits));
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(v.bits & 0x8000u) << 16;
  const std::uint32_t e = v.bits >> 10 & 31u, m = v.bits & 1023u;
  if (e == 0) return float_of(bits_of(static_cast<float>(m) * 0x1.0p-24f) | sign);
  return float_of(sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13);
#endif
}

SLUICE_HD inline void from_float(float x, float& v) { v = x; }
SLUICE_HD inline void from_float(float x, std::int16_t& v) {
  x = nearbyintf(x);
  v = static_cast<std::int16_t>(x < -32768.0f ? -32768.0f : x > 32767.0f ? 32767.0f : x);
}
SLUICE_HD inline void from_float(float x, std::uint8_t& v) {
  x = nearbyintf(x);
  v = static_cast<std::uint8_t>(x > 0.0f ? (x < 255.0f ? x : 255.0f) : 0.0f);
}
SLUICE_HD inline void from_float(float x, Brain& v) {
#ifdef __CUDA_ARCH__
  v.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));  // one instruction, not seven
#else
  const std::uint32_t u = bits_of(x);
  const std::uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  v.bits = static_cast<std::uint16_t>(nan ? (u >> 16 | 0x40u) : rounded);
#endif
}
SLUICE_HD inline void from_float(float x, Half& v) {
#ifdef __CUDA_ARCH__
  v.bits = __half_as_ushort(__float2half_rn(x));
#else
  std::uint32_t u = bits_of(x);
  const std::uint32_t sign = u >> 16 & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u)
    u = 0x7e00u;  // NaN
  else if (u >= 0x477ff000u)
    u = 0x7c00u;  // 65520 and more round to infinity
  else if (u < 0x38800000u)
    u = static_cast<std::uint32_t>(nearbyintf(float_of(u) * 0x1.0p24f));
  else
    u = (u + 0xfffu + (u >> 13 & 1u) - 0x38000000u) >> 13;
  v.bits = static_cast<std::uint16_t>(sign | u);
#endif
}

// Calls f with a value of the type that `type` names.
template <class F>
SLUICE_HD inline void with_voxel(VoxelType type, F&& f) {
  switch (type) {
    case VoxelType::f32:
      return f(float{});
    case VoxelType::f16:
      return f(Half{});
    case VoxelType::bf16:
      return f(Brain{});
    case VoxelType::i16:
      return f(std::int16_t{});
    case VoxelType::u8:
      return f(std::uint8_t{});
  }
}
inline std::int64_t voxel_bytes(VoxelType type) {
  return type == VoxelType::f32 ? 4 : type == VoxelType::u8 ? 1 : 2;
}

}  // namespace sluice::kernels
