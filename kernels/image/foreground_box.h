// MONAI's CropForeground, from the foreground's own box to the one that is cut. No tensors here.
#pragma once

#include <algorithm>

#include "kernels/image/affine.h"

namespace sluice {

struct GrowBox {
  Shape3 margin{0, 0, 0}, k_divisible{1, 1, 1};
  bool allow_smaller = false;  // a margin that sticks out of the image is cut, not padded

  // Of the first `axes` axes.
  void operator()(Shape3& start, Shape3& size, const Shape3& image, std::int64_t axes) const {
    for (int d = 0; d < axes; ++d) {
      std::int64_t low = start[d] - margin[d], high = start[d] + size[d] + margin[d];
      if (allow_smaller) low = std::max<std::int64_t>(low, 0), high = std::min(high, image[d]);
      size[d] = (high - low + k_divisible[d] - 1) / k_divisible[d] * k_divisible[d];
      start[d] = low - (size[d] - (high - low)) / 2;
    }
  }
};

}  // namespace sluice
