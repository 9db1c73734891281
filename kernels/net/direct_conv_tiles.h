// The inner loop of the direct convolutions (direct_conv_micro.h) by the tiles of AMX: one
// instruction multiplies 16 rows of up to 32 bfloat16 numbers by as many columns of 16 and adds the
// float32 products. It computes sixteen times as many products in a cycle as AVX512_BF16, where a
// shape fills the tiles; sums are taken in another order, so the last bits differ.
#pragma once

#include <cstdint>

#include "kernels/net/direct_conv_micro.h"

namespace sluice {

// Four tiles of sums: of as many positions, 16 a tile, as the vectors side by side leave.
inline constexpr int most_tile_sums = 64;

// How many words of a row one product takes, all of a row's products alike; 0 where other
// products (without_tiles()) are quicker than tiles so empty.
int tile_words(std::int64_t words);

// Sums of tiles that stand one after the other: sum (n, b) is added up of products of left side n
// and right side b, over blocks of 16 words.
struct TileSums {
  int rows;  // of the left sides: 16 each, at most two; the last may have fewer
  int n_b;   // at most two where there are two left sides, else four
  int blocks;
  const char* a;          // of a block 1 KiB a left side
  std::ptrdiff_t a_step;  // bytes to the next block's
  const char* b[4];       // 1 KiB a block
  float* sums;            // 1 KiB each: (n, b) is the (2 n + b)th
  bool add;               // go on from them instead of from zero
};

// A loop's tiles, set up for its shape; given back at the end, so that nobody has to save them.
// On one thread, and without calls into LibTorch in between, which has tiles of its own.
class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  ~Tiles();
  // A task of m positions (m times b at most most_tile_sums) whose words follow each other
  // (pstep is 4), `together` of them a product.
  void run(const MicroTask& task, int m, int b, int together);
  void run(const TileSums& task);

 private:
  void set_up(int m, int b, int together);
  int m_ = 0, b_ = 0, together_ = 0;
};

}  // namespace sluice
