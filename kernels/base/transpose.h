// Sixteen vectors of sixteen words as a square whose rows and columns change places.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/base/simd.h"

namespace sluice {

// Row i's lane j becomes row j's lane i: squares of half the size change places, then theirs.
template <int Half = 8>
SLUICE_INLINE inline void transpose(U16 (&rows)[16]) {
  constexpr auto lanes = [](bool high) {
    std::array<std::uint32_t, 16> of{};
    for (std::uint32_t j = 0; j < 16; ++j)
      of[j] = high ? ((j & Half) == 0 ? j + Half : j + 16) : ((j & Half) == 0 ? j : j - Half + 16);
    return of;
  };
  constexpr U16 low = std::bit_cast<U16>(lanes(false)), high = std::bit_cast<U16>(lanes(true));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i & Half) continue;
    const U16 a = rows[i], b = rows[i + Half];
    rows[i] = __builtin_shuffle(a, b, low);
    rows[i + Half] = __builtin_shuffle(a, b, high);
  }
  if constexpr (Half > 1) transpose<Half / 2>(rows);
}

}  // namespace sluice
