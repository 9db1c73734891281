// The one inner loop of the direct convolutions: a tile of sums held in registers,
//
//   acc[m][b] += sum over rows, pairs p:  pair(rows[row] + m mstep + p pstep) . w[row][p][b]
//
// where pair() is two bfloat16 values, broadcast, and w 16 lanes of two values. Forward: m counts
// output positions, pairs run over the taps' input channels. Weight gradient: m counts (tap,
// channel), pairs run over positions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

struct MicroTask {
  const std::ptrdiff_t* rows;  // byte offsets from `in`
  int n_rows, pairs;
  const char* in;
  std::ptrdiff_t mstep, pstep, ystep;  // bytes; ystep: between the tiles of NY rows
  const char* weights;                 // 64 bytes a vector, advancing with (row, pair, b)
  float* acc;                          // [ny][m][b][16], aligned
  bool add;                            // go on from acc instead of from zero
};
using Micro = void (*)(const MicroTask&);

inline constexpr int micro_tile = 24;  // sums (vectors) in a tile

// The loop for a tile of ny x m x b; ny * m * b <= micro_tile, b is 1 or 2, ny 1 or 3.
Micro find_micro(int ny, int m, int b);

}  // namespace sluice
