// The median of a window by forgetful selection: of half of the values the least and the largest
// are forgotten, a further one is taken, and so on. No branches on values, so that the same steps
// are done for many voxels at once. For host and device.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

// Values that `held` must have room for, per lane.
SLUICE_HD constexpr std::int64_t median_held(std::int64_t count) { return count / 2 + 2; }

// Of `count` (odd) values for each of Lanes voxels; value(i) points at the i-th ones.
template <class T, int Lanes, class Value>
SLUICE_HD inline void median_select(std::int64_t count, T* held, T* out, Value&& value) {
  const auto sort = [](T* a, T* b) {
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) {
      const T x = a[l], y = b[l];
      a[l] = y < x ? y : x;
      b[l] = y < x ? x : y;
    }
  };
  const auto take = [&](T* to, std::int64_t i) {
    const T* from = value(i);
    for (int l = 0; l < Lanes; ++l) to[l] = from[l];
  };
  std::int64_t next = count == 1 ? 1 : median_held(count), n = next;
  for (std::int64_t i = 0; i < n; ++i) take(held + i * Lanes, i);
  T* first = held;
  while (n > 1) {
    // The least to the front, the largest to the back.
    for (std::int64_t i = 1; i < n; ++i) sort(first, first + i * Lanes);
    for (std::int64_t i = 1; i < n - 1; ++i) sort(first + i * Lanes, first + (n - 1) * Lanes);
    if (n > 3) {  // a further value in the least one's place, the largest is forgotten
      take(first, next++);
      --n;
    } else {
      first += Lanes;
      n = 1;
    }
  }
  for (int l = 0; l < Lanes; ++l) out[l] = first[l];
}

}  // namespace sluice::kernels
