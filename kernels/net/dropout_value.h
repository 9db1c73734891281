// Dropout's factors: 0 or 1/(1-p) for every element of a batch, a pure function of (key, sample,
// position in the sample), so a backward pass draws them again and none is kept.
#pragma once

#include <cstdint>

#include "engine/base/philox.h"

namespace sluice::kernels {

struct DropoutRule {
  double p = 0;    // the share that becomes 0
  float kept = 1;  // 1 / (1 - p)
  std::uint64_t key = 0;
  std::int64_t first_sample = 0;

  static DropoutRule of(double p, std::uint64_t key, std::int64_t first_sample) {
    return {p, static_cast<float>(1 / (1 - p)), key, first_sample};
  }
  // The draws of a member's positions [C, ...] from `i` on, a multiple of 4.
  SLUICE_HD Block4 draws(std::int64_t member, std::int64_t i) const {
    const std::uint64_t sample = mix(key ^ mix(static_cast<std::uint64_t>(first_sample + member)));
    return philox(static_cast<std::uint64_t>(i), sample, key);
  }
  SLUICE_HD float factor(std::uint32_t draw) const { return unit_float(draw) < p ? 0.0f : kept; }
};

// x [members, channels, voxels], or [members, voxels, channels] where channels are last.
struct DropoutCall {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t members = 0, channels = 0, voxels = 0;
  bool channels_last = false;
};

}  // namespace sluice::kernels
