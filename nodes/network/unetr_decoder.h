// The convolutional decoder of UNETR and what came after it.
//
//   x ─ decoder5 ─ decoder4 ─ ... ─ 1x1 ─▶ logits
//          └ skip     └ skip
#pragma once

#include <algorithm>

#include "kernels/net/blocks.h"

namespace sluice {

// Each block doubles extents to those of its skip, and has the skip's channels. `skips`: the lowest
// first. NAME.decoder5, NAME.decoder4, ..., NAME.out.conv.conv.
inline Value unetr_decoder(const Scope& s, Value x, const Values& skips, const UnetBlockOptions& o,
                           std::int64_t out_channels) {
  int number = 5;
  for (const Value& skip : skips)
    x = unet_up_block(s / ("decoder" + std::to_string(number--)), x, skip, skip.channels, 2, o);
  return conv(s / "out.conv.conv", x, out_channels, {.kernel = 1});
}

// The drop path of block `i` of `count`: from 0 to `last` in even steps.
inline double drop_path_of(double last, std::int64_t i, std::int64_t count) {
  return last * static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(1, count - 1));
}

}  // namespace sluice
