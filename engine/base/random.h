// Counter-based random numbers. Every draw is a pure function of (run seed, node path, stamp,
// draw number), so it does not depend on threads, timing, or which samples came before. The
// generator is in philox.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "engine/base/philox.h"
#include "engine/base/stamp.h"

namespace sluice {

// The key of a node's draws: renaming a node changes them, reordering the file does not.
inline std::uint64_t random_key(std::uint64_t seed, std::string_view node) {
  std::uint64_t h = mix(seed);
  for (char c : node) h = mix(h ^ static_cast<unsigned char>(c));
  return h;
}

// The draws of one firing. A small value type: copy it to hand a kernel the same draws.
class Random {
 public:
  Random(std::uint64_t key, const Stamp& stamp) : key_(key) {
    std::uint64_t h = mix(stamp.epoch);
    h = mix(h ^ stamp.index);
    for (int d = 0; d < stamp.depth; ++d) h = mix(h ^ (stamp.path[d] + 1ull));
    stamp_ = h;
  }

  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = philox(draw_++, stamp_, key_);
      used_ = 0;
    }
    return block_.v[used_++];
  }
  std::uint64_t bits64() {
    const std::uint64_t high = bits();
    return high << 32 | bits();
  }
  // [0, 1) with 53 bits.
  double uniform() { return static_cast<double>(bits64() >> 11) * 0x1.0p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // True with probability p; p = 0 never, p = 1 always.
  bool chance(double p) { return uniform() < p; }
  // Uniform over 0 .. n-1 without bias (Lemire 2019); n > 0.
  std::uint64_t integer(std::uint64_t n) {
    unsigned __int128 m = static_cast<unsigned __int128>(bits64()) * n;
    if (static_cast<std::uint64_t>(m) < n) {
      const std::uint64_t floor = (0 - n) % n;
      while (static_cast<std::uint64_t>(m) < floor)
        m = static_cast<unsigned __int128>(bits64()) * n;
    }
    return static_cast<std::uint64_t>(m >> 64);
  }
  double normal() {
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
  }
  // A fresh key for a kernel that draws by element: philox(i, stream_id(), key()).
  struct Stream {
    std::uint64_t key, counter_high;
  };
  Stream stream() { return Stream{mix(key_ ^ bits64()), stamp_}; }

 private:
  std::uint64_t key_ = 0, stamp_ = 0, draw_ = 0;
  Block4 block_{};
  int used_ = 4;
};

// A keyed permutation of 0 .. n-1: position -> item, without a table (a cycle-walking Feistel
// network; Black and Rogaway 2002). The epoch's order follows from its key alone.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key) : n_(n), key_(key) {
    while ((1ull << (2 * half_)) < n) ++half_;
  }
  std::uint64_t operator()(std::uint64_t position) const {
    do position = rounds(position);
    while (position >= n_);
    return position;
  }

 private:
  std::uint64_t rounds(std::uint64_t x) const {
    const std::uint64_t mask = (1ull << half_) - 1;
    std::uint64_t left = x >> half_, right = x & mask;
    for (std::uint64_t r = 0; r < 8; ++r) {
      const std::uint64_t f = mix(key_ ^ mix(right ^ (r << 56))) & mask;
      const std::uint64_t next = left ^ f;
      left = right;
      right = next;
    }
    return left << half_ | right;
  }
  std::uint64_t n_, key_;
  int half_ = 1;
};

}  // namespace sluice
