#include "kernels/net/direct_conv_tiles.h"

#include <algorithm>
#include <utility>

namespace sluice {

int tile_words(std::int64_t words) {
  for (int together = 16; together >= 3; --together)
    if (words % together == 0) return together;
  return 0;
}

#if defined(__x86_64__)
namespace {

// The instructions, in the assembler's words: intrinsics would ask for their instruction set here.
// Tiles 0 to 3 are sums, 4 and 5 positions (5: the last, which may be fewer), 6 and 7 weights.
template <int Tile>
void load_tile(const void* from, std::ptrdiff_t step) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(step), "i"(Tile) : "memory");
}
template <int Tile>
void store_tile(void* to, std::ptrdiff_t step) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(step), "i"(Tile) : "memory");
}
template <int Tile>
void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(Tile));
}
template <int Sum, int Positions, int Weights>
void add_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sum), "i"(Positions), "i"(Weights));
}

template <class F, int... I>
void unrolled(const F& f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}
template <int N, class F>
void unrolled(const F& f) {
  unrolled(f, std::make_integer_sequence<int, N>{});
}

// N times 16 positions (the last may be fewer), B vectors side by side.
template <int N, int B>
void run_tiles(const MicroTask& t, int together) {
  const std::ptrdiff_t acc_step = 64 * B;
  const auto sum_at = [&](int n, int b) { return t.acc + (n * 16 * B + b) * 16; };
  unrolled<N * B>([&](auto i) {
    if (t.add)
      load_tile<i>(sum_at(i / B, i % B), acc_step);
    else
      clear_tile<i>();
  });
  const char* w = t.weights;
  for (int row = 0; row < t.n_rows; ++row) {
    const char* at = t.in + t.rows[row];
    for (int p = 0; p < t.words; p += together, w += 64 * B * together, at += 4 * together) {
      unrolled<B>([&](auto b) { load_tile<6 + b>(w + 64 * b, 64 * B); });
      unrolled<N>([&](auto n) {
        constexpr int positions = n == N - 1 ? 5 : 4;
        load_tile<positions>(at + n * 16 * t.mstep, t.mstep);
        unrolled<B>([&](auto b) { add_products<n * B + b, positions, 6 + b>(); });
      });
    }
  }
  unrolled<N * B>([&](auto i) { store_tile<i>(sum_at(i / B, i % B), acc_step); });
}

// N left sides (the last may have fewer rows), B right sides.
template <int N, int B>
void sum_tiles(const TileSums& t) {
  unrolled<N * B>([&](auto i) {
    if (t.add)
      load_tile<i>(t.sums + (i / B * 2 + i % B) * 256, 64);
    else
      clear_tile<i>();
  });
  const char* a = t.a;
  for (std::ptrdiff_t k = 0; k < t.blocks; ++k, a += t.a_step) {
    unrolled<N>([&](auto n) { load_tile<(n == N - 1 ? 5 : 4)>(a + 1024 * n, 64); });
    unrolled<B>([&](auto b) {
      load_tile<6 + b % 2>(t.b[b] + 1024 * k, 64);
      unrolled<N>([&](auto n) { add_products<n * B + b, (n == N - 1 ? 5 : 4), 6 + b % 2>(); });
    });
  }
  unrolled<N * B>([&](auto i) { store_tile<i>(t.sums + (i / B * 2 + i % B) * 256, 64); });
}

}  // namespace

void Tiles::set_up(int m, int b, int together) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } shape;
  static_assert(sizeof shape == 64);
  const auto set = [&](int tile, int rows, int bytes) {
    shape.rows[tile] = static_cast<std::uint8_t>(rows);
    shape.row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  };
  const int blocks = (m + 15) / 16, last = m - 16 * (blocks - 1);
  for (int i = 0; i < blocks * b; ++i) set(i, i / b == blocks - 1 ? last : 16, 64);
  set(4, 16, 4 * together);
  set(5, last, 4 * together);
  for (int i = 0; i < std::min(2, b); ++i) set(6 + i, together, 64);
  asm volatile("ldtilecfg %0" ::"m"(shape));
  m_ = m;
  b_ = b;
  together_ = together;
}

void Tiles::run(const MicroTask& t, int m, int b, int together) {
  if (m != m_ || b != b_ || together != together_) set_up(m, b, together);
  switch (4 * b + (m + 15) / 16 - 1) {
    case 4:
      return run_tiles<1, 1>(t, together);
    case 5:
      return run_tiles<2, 1>(t, together);
    case 6:
      return run_tiles<3, 1>(t, together);
    case 7:
      return run_tiles<4, 1>(t, together);
    case 8:
      return run_tiles<1, 2>(t, together);
    default:
      return run_tiles<2, 2>(t, together);
  }
}

void Tiles::run(const TileSums& t) {
  if (t.rows != m_ || t.n_b != b_ || together_ != 16) set_up(t.rows, t.n_b, 16);
  switch (t.n_b + (t.rows > 16 ? 4 : 0)) {
    case 1:
      return sum_tiles<1, 1>(t);
    case 2:
      return sum_tiles<1, 2>(t);
    case 3:
      return sum_tiles<1, 3>(t);
    case 4:
      return sum_tiles<1, 4>(t);
    case 5:
      return sum_tiles<2, 1>(t);
    default:
      return sum_tiles<2, 2>(t);
  }
}

Tiles::~Tiles() {
  if (m_ > 0) asm volatile("tilerelease");
}
#else  // no level has tiles
void Tiles::run(const MicroTask&, int, int, int) {}
void Tiles::run(const TileSums&) {}
Tiles::~Tiles() = default;
#endif

}  // namespace sluice
