// Rounding to 16 bits that stays float32, in operations that vectorise. For host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

// The nearest number that float16 has, of equally near ones the even one; no infinity.
SLUICE_HD inline float as_half(float x) {
  if (x < 0x1p-14f && x > -0x1p-14f) return (x + 0.75f) - 0.75f;  // multiples of 2^-24
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits += 0xfff + (bits >> 13 & 1);
  bits &= ~0x1fffu;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}
}  // namespace sluice::kernels
