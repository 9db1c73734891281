// Masks of a bit a voxel with a directory of ranks: how many voxels are set, and which is the k-th
// of them, in memory order. A 32nd of a float volume, where lists of voxel numbers take as much as
// the volume itself; drawing a crop's centre reads one block of it. For host and device.
//
//   words   32 voxels each, voxel i is bit i % 32 of word i / 32
//   ranks   ranks[b]: voxels that are set before block b, of 32 words; the last: all of them
//
// Invariant: bits after the last voxel are 0, so nothing after it is ever drawn.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

inline constexpr int bit_block = 32;  // words

SLUICE_HD inline std::int64_t bit_words(std::int64_t voxels) { return (voxels + 31) / 32; }
SLUICE_HD inline std::int64_t bit_blocks(std::int64_t voxels) {
  return (bit_words(voxels) + bit_block - 1) / bit_block;
}

// Which voxels are set: those of the label's foreground (any channel but the first of several is
// not 0), or the background: the others, and where there is an image only above the threshold.
struct BitRule {
  const void *label = nullptr, *image = nullptr;  // [channels, voxels] each; image may be null
  VoxelType label_type = VoxelType::u8, image_type = VoxelType::f32;
  std::int32_t label_channels = 1, image_channels = 1;
  float threshold = 0;
  bool background = false;
  std::int64_t voxels = 0;

  SLUICE_HD bool operator()(std::int64_t i) const {
    if (i >= voxels) return false;
    bool foreground = false;
    with_voxel(label_type, [&](auto type) {
      const auto* p = static_cast<const decltype(type)*>(label) + i;
      for (int c = label_channels > 1 ? 1 : 0; c < label_channels; ++c)
        foreground = foreground || to_float(p[c * voxels]) != 0.0f;
    });
    if (!background || foreground) return foreground != background;
    if (!image) return true;
    bool above = false;
    with_voxel(image_type, [&](auto type) {
      const auto* p = static_cast<const decltype(type)*>(image) + i;
      for (int c = 0; c < image_channels; ++c) above = above || to_float(p[c * voxels]) > threshold;
    });
    return above;
  }
};

struct BitMask {
  const std::uint32_t* words = nullptr;
  const std::uint32_t* ranks = nullptr;  // [bit_blocks + 1]
  std::int64_t voxels = 0;

  SLUICE_HD std::uint32_t count() const { return ranks[bit_blocks(voxels)]; }

  // The k-th voxel that is set, from 0; k < count().
  SLUICE_HD std::int64_t voxel(std::uint32_t k) const {
    std::int64_t low = 0, high = bit_blocks(voxels);  // ranks[low] <= k < ranks[high]
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      if (ranks[middle] <= k)
        low = middle;
      else
        high = middle;
    }
    k -= ranks[low];
    for (std::int64_t w = low * bit_block;; ++w) {
      const std::uint32_t n = set_bits(words[w]);
      if (k < n) return w * 32 + place(words[w], k);
      k -= n;
    }
  }

  SLUICE_HD static std::uint32_t set_bits(std::uint32_t w) {
#ifdef __CUDA_ARCH__
    return static_cast<std::uint32_t>(__popc(w));
#else
    return static_cast<std::uint32_t>(__builtin_popcount(w));
#endif
  }
  // The place of the k-th bit of a word that has more than k.
  SLUICE_HD static int place(std::uint32_t w, std::uint32_t k) {
    for (; k > 0; --k) w &= w - 1;
    return static_cast<int>(set_bits((w & (0 - w)) - 1));
  }
};

// Draw number i of a stream: with probability `share` a foreground voxel, else one of the
// background; where a pool is empty from the other. -1 where both are.
struct BitDraw {
  BitMask foreground, background;
  double share = 0.5;
  std::uint64_t key = 0, counter = 0;

  SLUICE_HD std::int64_t operator()(std::uint64_t i) const {
    const std::uint32_t nf = foreground.count(), nb = background.count();
    if (nf + nb == 0) return -1;
    const Block4 words = philox(i, counter, key);
    const double unit = static_cast<double>(words.v[0]) * 0x1.0p-32;
    const bool from_foreground = nb == 0 || (nf != 0 && unit < share);
    const std::uint64_t n = from_foreground ? nf : nb;
    // 64 bits times n, without the correction of Lemire's method: off by less than 2^-32.
    const std::uint64_t high = words.v[2], low = words.v[3];
    const std::uint64_t k = (high * n + (low * n >> 32)) >> 32;
    return (from_foreground ? foreground : background).voxel(static_cast<std::uint32_t>(k));
  }
};

// On the host: words [bit_words], ranks [bit_blocks + 1]; word(w) gives 32 voxels.
template <class Word>
void make_ranked(std::int64_t voxels, std::uint32_t* words, std::uint32_t* ranks, Word&& word) {
  std::uint32_t rank = 0;
  for (std::int64_t w = 0; w < bit_words(voxels); ++w) {
    if (w % bit_block == 0) ranks[w / bit_block] = rank;
    words[w] = word(w);
    rank += BitMask::set_bits(words[w]);
  }
  ranks[bit_blocks(voxels)] = rank;
}

inline void make_bits(const BitRule& rule, std::uint32_t* words, std::uint32_t* ranks) {
  make_ranked(rule.voxels, words, ranks, [&](std::int64_t w) {
    std::uint32_t word = 0;
    for (int b = 0; b < 32; ++b) word |= (rule(w * 32 + b) ? 1u : 0u) << b;
    return word;
  });
}

// From bytes that are 0 or 1. Eight of them become bits in one product, whose terms meet nowhere:
// byte i, at bit 8 i, times 2^(56 - 7 i) is bit i of the highest byte.
inline void make_bits(const std::uint8_t* set, std::int64_t voxels, std::uint32_t* words,
                      std::uint32_t* ranks) {
  make_ranked(voxels, words, ranks, [&](std::int64_t w) {
    std::uint32_t word = 0;
    for (std::int64_t i = w * 32; i < std::min(w * 32 + 32, voxels); i += 8) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, set + i, static_cast<std::size_t>(std::min<std::int64_t>(8, voxels - i)));
      const std::uint64_t bits = bytes * 0x0102040810204080u >> 56;
      word |= static_cast<std::uint32_t>(bits) << (i - w * 32);
    }
    return word;
  });
}

}  // namespace sluice::kernels
