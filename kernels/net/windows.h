// How far windows reach: of convolutions and poolings.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace sluice {

// A DataError where a window is larger than an image [N, C, ...] with its borders. Entries are by
// spatial axis; no dilation: 1.
inline void require_windows_fit(const std::vector<std::int64_t>& image,
                                const std::vector<std::int64_t>& kernel,
                                const std::vector<std::int64_t>& padding,
                                const std::vector<std::int64_t>& dilation = {}) {
  std::vector<std::int64_t> reach, room;
  bool fits = true;
  for (std::size_t a = 0; a < kernel.size(); ++a) {
    reach.push_back((kernel[a] - 1) * (dilation.empty() ? 1 : dilation[a]) + 1);
    room.push_back(image[a + 2] + 2 * padding[a]);
    fits = fits && reach[a] <= room[a];
  }
  if (!fits)
    throw DataError("a window of " + c10::str(c10::IntArrayRef(reach)) +
                    " is larger than what is there, " + c10::str(c10::IntArrayRef(room)));
}

}  // namespace sluice
