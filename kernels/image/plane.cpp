#include "kernels/image/plane.h"

namespace sluice {

Affine plane_affine(const Affine& volume, std::int64_t axis, std::int64_t at) {
  Affine plane{};
  for (std::size_t row = 0; row < 3; ++row) {
    std::size_t column = 0;
    for (std::size_t a = 0; a < 3; ++a)
      if (static_cast<std::int64_t>(a) != axis) plane[row * 4 + column++] = volume[row * 4 + a];
    const double across = volume[row * 4 + static_cast<std::size_t>(axis)];
    plane[row * 4 + 2] = across;
    plane[row * 4 + 3] = volume[row * 4 + 3] + static_cast<double>(at) * across;
  }
  plane[15] = 1;
  return plane;
}

}  // namespace sluice
