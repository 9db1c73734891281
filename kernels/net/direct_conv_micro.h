// The one inner loop of the direct convolutions: a tile of sums held in registers,
//
//   acc[m][b] += sum over rows, words p:  word(rows[row] + m mstep + p pstep) . w[row][p][b]
//
// where a word is 32 bits, broadcast, and w 16 lanes of words. A word is one float32 number or two
// bfloat16 ones. Forward: m counts output positions, words run over the taps' input channels.
// Weight gradient: m counts (tap, channel), words run over positions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// The instructions that multiply and add words.
enum class Products {
  avx2,    // one number a word, vectors of 8; also on aarch64, which has none of the others
  avx512,  // one number a word
  pairs,   // two bfloat16 numbers a word (AVX512_BF16)
  tiles,   // the same, by AMX where a shape fills its tiles
};
inline int numbers_a_word(Products p) { return p < Products::pairs ? 1 : 2; }
// What is quickest where a shape does not fill them: on a CPU that has tiles, pairs come to 44
// billion multiply-adds a second and float32's numbers to 78.
inline Products without_tiles(Products p) { return p == Products::tiles ? Products::avx512 : p; }
inline int bytes_a_number(Products p) { return 4 / numbers_a_word(p); }

struct MicroTask {
  const std::ptrdiff_t* rows;  // byte offsets from `in`
  int n_rows, words;
  const char* in;
  std::ptrdiff_t mstep, pstep, ystep;  // bytes; ystep: between the tiles of NY rows
  const char* weights;                 // 64 bytes a vector, advancing with (row, word, b)
  float* acc;                          // [ny][m][b][16]
  bool add;                            // go on from acc instead of from zero
  // Numbers from the sums of one position to those of the next; 0: 16 b, which tiles take alone.
  std::ptrdiff_t acc_step = 0;
};
using Micro = void (*)(const MicroTask&);

inline constexpr int micro_tile = 24;  // sums (of 16 lanes) in the largest tile

// What the registers hold: sums of a tile, and how many vectors of weights stand side by side.
struct MicroTile {
  int sums, vectors;
};
inline MicroTile micro_tile_of(Products p) {
  return p == Products::avx2 ? MicroTile{6, 1} : MicroTile{micro_tile, 2};
}

// The loop for a tile of ny x m x b sums, as many as micro_tile_of() allows; ny is 1 or 3.
Micro find_micro(Products p, int ny, int m, int b);
// The same for rows of one word, a tile of 1 x m x 1.
Micro find_listed_micro(Products p, int m);

}  // namespace sluice
