// Numbers that stand channel by channel at each position (channels-last), as a plane a channel,
// and back. Nothing is computed, so that a result hangs on no instruction set.
#pragma once

#include <cstdint>

namespace sluice {

// n positions: to[c * step + x] = from[x * channels + c].
void to_planes(const float* from, std::int64_t n, std::int64_t channels, float* to,
               std::int64_t step);

// The first `values` of to[x * channels + c] = from[c * step + x].
void from_planes(const float* from, std::int64_t step, std::int64_t values, std::int64_t channels,
                 float* to);

}  // namespace sluice
