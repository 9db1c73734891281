// Fortran order to C order and back: dst[k][j][i] = map(src[i][j][k]).
//
// Invariant: no cache line of src or dst is fetched twice. For one j, a strip of 32 columns k is
// gathered over all i into a small buffer (this loop vectorises, map included) and written as 32
// long rows; walking straight through either side would use one element of each line it fetches.
//
//   src  i |  [k .. k+31]     ->   strip [i][32]   ->   dst  k    | i i i i i i ...
//        i |  [k .. k+31]          (in the cache)            k+1  | i i i i i i ...
//
// Single-threaded: many volumes are read at a time instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

// src is [n0][n1][n2], dst [n2][n1][n0], both contiguous.
template <class In, class Out, class Map>
void reverse_axes(const In* src, std::int64_t n0, std::int64_t n1, std::int64_t n2, Out* dst,
                  Map map) {
  constexpr std::int64_t width = 32;
  std::vector<Out> strip(static_cast<std::size_t>(n0 * width));
  for (std::int64_t k = 0; k < n2; k += width) {
    const std::int64_t columns = std::min(width, n2 - k);
    for (std::int64_t j = 0; j < n1; ++j) {
      Out* held = strip.data();
      for (std::int64_t i = 0; i < n0; ++i, held += width) {
        const In* row = src + (i * n1 + j) * n2 + k;
        __builtin_prefetch(row + 2 * n2);  // the strip after the next; rows are pages apart
        if (columns == width)
          for (std::int64_t c = 0; c < width; ++c) held[c] = map(row[c]);
        else
          for (std::int64_t c = 0; c < columns; ++c) held[c] = map(row[c]);
      }
      for (std::int64_t c = 0; c < columns; ++c) {
        Out* row = dst + ((k + c) * n1 + j) * n0;
        for (std::int64_t i = 0; i < n0; ++i)
          row[i] = strip[static_cast<std::size_t>(i * width + c)];
      }
    }
  }
}

}  // namespace sluice
