// What an image is outside of itself: which of its n voxels stands for node i, and with which sign.
// For host and device.
#pragma once

#include <cstdint>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

// The numbers are MONAI's; 6 (sliding) is not implemented there either.
enum class Bound : std::uint8_t { replicate, dct1, dct2, dst1, dst2, dft, zero = 7 };

struct BoundNode {
  std::int64_t index;
  int sign;  // 0: the value there is 0, and `index` means nothing
};

SLUICE_HD inline std::int64_t modulo(std::int64_t i, std::int64_t n) {
  const std::int64_t r = i % n;
  return r < 0 ? r + n : r;
}

SLUICE_HD inline BoundNode bound_node(Bound bound, std::int64_t i, std::int64_t n) {
  if (i >= 0 && i < n) return {i, 1};
  switch (bound) {
    case Bound::replicate:
      return {i < 0 ? 0 : n - 1, 1};
    case Bound::dct1: {  // about the centre of the edge voxel
      if (n == 1) return {0, 1};
      const std::int64_t m = modulo(i, 2 * (n - 1));
      return {m < n ? m : 2 * (n - 1) - m, 1};
    }
    case Bound::dct2:  // about the edge
    case Bound::dst2: {
      const std::int64_t m = modulo(i, 2 * n);
      const bool mirrored = m >= n;
      return {mirrored ? 2 * n - 1 - m : m, mirrored && bound == Bound::dst2 ? -1 : 1};
    }
    case Bound::dst1: {
      if (n == 1) return {0, 1};
      const std::int64_t m = modulo(i, 2 * (n + 1));
      if (m < n) return {m, 1};
      if (m == n || m == 2 * n + 1) return {0, 0};
      return {2 * n - m, -1};
    }
    case Bound::dft:
      return {modulo(i, n), 1};
    default:
      return {0, 0};
  }
}

}  // namespace sluice::kernels
