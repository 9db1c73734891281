// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011) and what turns its words into numbers: pure functions for host and device, in C++17, since
// the device's compiler reads them too.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define SLUICE_HD __host__ __device__
#else
#define SLUICE_HD
#endif

namespace sluice {

struct Block4 {
  std::uint32_t v[4];
};

// One Philox4x32-10 block: 128 random bits for a 128-bit counter and a 64-bit key.
SLUICE_HD inline Block4 philox(std::uint64_t counter_low, std::uint64_t counter_high,
                               std::uint64_t key) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(0xD2511F53u) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(0xCD9E8D57u) * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Block4{{c0, c1, c2, c3}};
}

// [0, 1) with 24 bits, as a float represents exactly.
SLUICE_HD inline float unit_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1.0p-24f;
}

// Two standard normals from two words (Box and Muller 1958); never infinite.
SLUICE_HD inline void normal_pair(std::uint32_t a, std::uint32_t b, float& x, float& y) {
  const float u = (static_cast<float>(a >> 8) + 0.5f) * 0x1.0p-24f;
  const float t = 6.28318530717958647692f * unit_float(b);
  const float r = sqrtf(-2.0f * logf(u));
  x = r * cosf(t);
  y = r * sinf(t);
}

// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection that spreads every input bit.
SLUICE_HD inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace sluice
