// The median of a window by forgetful selection: of half of the values the least and the largest
// are forgotten, a further one is taken, and so on. No branches on values, so that the same steps
// are done for many voxels at once. For host and device.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

// Values that `held` must have room for, per lane.
SLUICE_HD constexpr std::int64_t median_held(std::int64_t count) { return count / 2 + 2; }

// Of `count` (odd) values for each of Lanes voxels; value(i) points at the i-th ones. The least and
// the largest so far stay in registers along a pass.
template <class T, int Lanes, class Value>
SLUICE_HD inline void median_select(std::int64_t count, T* held, T* out, Value&& value) {
  const auto take = [&](T* to, std::int64_t i) {
    const T* from = value(i);
    for (int l = 0; l < Lanes; ++l) to[l] = from[l];
  };
  std::int64_t next = count == 1 ? 1 : median_held(count), n = next;
  for (std::int64_t i = 0; i < n; ++i) take(held + i * Lanes, i);
  while (n > 1) {
    T least[Lanes], most[Lanes];
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) {
      const T x = held[l], y = held[(n - 1) * Lanes + l];
      least[l] = y < x ? y : x;
      most[l] = y < x ? x : y;
    }
    for (std::int64_t i = 1; i < n - 1; ++i) {
      T* at = held + i * Lanes;
      SLUICE_LANES
      for (int l = 0; l < Lanes; ++l) {
        const T x = least[l], y = at[l], z = most[l], larger = y < x ? x : y;
        least[l] = y < x ? y : x;
        at[l] = z < larger ? z : larger;
        most[l] = z < larger ? larger : z;
      }
    }
    if (n == 3) {
      held += Lanes;
      break;
    }
    take(held, next++);  // in the least one's place; the largest is forgotten
    --n;
  }
  for (int l = 0; l < Lanes; ++l) out[l] = held[l];
}

}  // namespace sluice::kernels
