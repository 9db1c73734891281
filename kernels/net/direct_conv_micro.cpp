#include "kernels/net/direct_conv_micro.h"

#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#define SLUICE_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]]

namespace sluice {
namespace {

template <int NY, int M, int B>
SLUICE_BF16 void micro(const MicroTask& t) {
  __m512 acc[NY][M][B];
#pragma GCC unroll 32
  for (int i = 0; i < NY * M * B; ++i)
    (&acc[0][0][0])[i] = t.add ? _mm512_load_ps(t.acc + 16 * i) : _mm512_setzero_ps();
  const char* w = t.weights;
  const std::ptrdiff_t mstep = t.mstep, pstep = t.pstep, ystep = t.ystep;
  for (int row = 0; row < t.n_rows; ++row) {
    // A pointer for every third position: the other two are reached by its addressing modes.
    constexpr int P = (M + 2) / 3;
    const char* at[NY][P];
    for (int y = 0; y < NY; ++y)
      for (int k = 0; k < P; ++k) at[y][k] = t.in + t.rows[row] + y * ystep + 3 * k * mstep;
    for (int p = 0; p < t.pairs; ++p) {
      __m512i v[B];
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) v[b] = _mm512_loadu_si512(w + 64 * b);
      w += 64 * B;
#pragma GCC unroll 3
      for (int y = 0; y < NY; ++y) {
#pragma GCC unroll 32
        for (int m = 0; m < M; ++m) {
          std::int32_t pair;
          std::memcpy(&pair, at[y][m / 3] + (m % 3) * mstep, sizeof pair);
          const __m512i both = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
          for (int b = 0; b < B; ++b)
            acc[y][m][b] = _mm512_dpbf16_ps(acc[y][m][b], reinterpret_cast<__m512bh>(v[b]),
                                            reinterpret_cast<__m512bh>(both));
        }
#pragma GCC unroll 8
        for (int k = 0; k < P; ++k) at[y][k] += pstep;
      }
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < NY * M * B; ++i) _mm512_store_ps(t.acc + 16 * i, (&acc[0][0][0])[i]);
}

template <int NY, int B, int... M>
constexpr auto table(std::integer_sequence<int, M...>) {
  return std::array<Micro, sizeof...(M)>{micro<NY, M + 1, B>...};
}
constexpr auto one = table<1, 1>(std::make_integer_sequence<int, 24>());
constexpr auto two = table<1, 2>(std::make_integer_sequence<int, 12>());
constexpr auto three = table<3, 1>(std::make_integer_sequence<int, 8>());
constexpr auto three_two = table<3, 2>(std::make_integer_sequence<int, 4>());

}  // namespace

Micro find_micro(int ny, int m, int b) {
  if (ny == 1) return b == 1 ? one.at(m - 1) : two.at(m - 1);
  return b == 1 ? three.at(m - 1) : three_two.at(m - 1);
}

}  // namespace sluice
