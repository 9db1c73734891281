#include "kernels/net/direct_conv_micro.h"

#include <array>
#include <cstring>
#include <utility>

#include "kernels/base/simd.h"

namespace sluice {
namespace {

struct Numbers {
  template <class V>
  SLUICE_INLINE static void add_product(V& sum, const V& weights, const char* word) {
    float x;
    std::memcpy(&x, word, sizeof x);
    sum += weights * x;
  }
};

#if defined(__x86_64__)
struct Pairs {
  // In the assembler's words: an intrinsic would ask for its instruction set here already.
  template <class V>
  SLUICE_INLINE static void add_product(V& sum, const V& weights, const char* word) {
    struct Word {
      char bytes[4];
    };
    asm("vdpbf16ps %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(weights), "m"(*reinterpret_cast<const Word*>(word)));
  }
};
#else
using Pairs = Numbers;  // no level has them
#endif

// V: F16, or F8 of which two make 16 lanes. Listed: rows of one word.
template <class V, class Product, int NY, int M, int B, bool Listed = false>
SLUICE_INLINE inline void tile(const MicroTask& t) {
  constexpr int H = 64 / sizeof(V);
  V acc[NY][M][B * H];
  const std::ptrdiff_t acc_step = t.acc_step ? t.acc_step : 16 * B;
  const auto each_sum = [&](const auto& body) SLUICE_INLINE {
#pragma GCC unroll 24
    for (int m = 0; m < NY * M; ++m)
#pragma GCC unroll 4
      for (int b = 0; b < B * H; ++b)
        body((&acc[0][0][0])[m * B * H + b], t.acc + m * acc_step + 16 / H * b);
  };
  each_sum([&](V& sum, const float* from) SLUICE_INLINE { sum = t.add ? load<V>(from) : V{}; });
  const char* w = t.weights;
  const std::ptrdiff_t mstep = t.mstep, pstep = t.pstep, ystep = t.ystep;
  for (int row = 0; row < t.n_rows; ++row) {
    // A pointer for every third position: the other two are reached by its addressing modes.
    constexpr int P = (M + 2) / 3;
    const char* at[NY][P];
    for (int y = 0; y < NY; ++y)
      for (int k = 0; k < P; ++k) at[y][k] = t.in + t.rows[row] + y * ystep + 3 * k * mstep;
    for (int p = 0; p < (Listed ? 1 : t.words); ++p) {
      V v[B * H];
#pragma GCC unroll 4
      for (int b = 0; b < B * H; ++b) std::memcpy(&v[b], w + sizeof(V) * b, sizeof(V));
      w += 64 * B;
#pragma GCC unroll 3
      for (int y = 0; y < NY; ++y) {
#pragma GCC unroll 32
        for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
          for (int b = 0; b < B * H; ++b)
            Product::add_product(acc[y][m][b], v[b], at[y][m / 3] + (m % 3) * mstep);
#pragma GCC unroll 8
        for (int k = 0; k < P && !Listed; ++k) at[y][k] += pstep;
      }
    }
  }
  each_sum([](const V& sum, float* to) SLUICE_INLINE { store(to, sum); });
}

template <class Product, int NY, int M, int B>
SLUICE_AVX512 void wide(const MicroTask& t) {
  tile<F16, Product, NY, M, B>(t);
}
template <int NY, int M, int B>
void narrow(const MicroTask& t) {
  tile<F8, Numbers, NY, M, B>(t);
}
template <class Product, int M>
SLUICE_AVX512 void wide_listed(const MicroTask& t) {
  tile<F16, Product, 1, M, 1, true>(t);
}
template <int M>
void narrow_listed(const MicroTask& t) {
  tile<F8, Numbers, 1, M, 1, true>(t);
}

template <class Product, int NY, int B, int... M>
constexpr auto wide_table(std::integer_sequence<int, M...>) {
  return std::array<Micro, sizeof...(M)>{wide<Product, NY, M + 1, B>...};
}
template <class Product>
Micro find_wide(int ny, int m, int b) {
  static constexpr auto one = wide_table<Product, 1, 1>(std::make_integer_sequence<int, 24>());
  static constexpr auto two = wide_table<Product, 1, 2>(std::make_integer_sequence<int, 12>());
  static constexpr auto three = wide_table<Product, 3, 1>(std::make_integer_sequence<int, 8>());
  static constexpr auto both = wide_table<Product, 3, 2>(std::make_integer_sequence<int, 4>());
  if (ny == 1) return b == 1 ? one.at(m - 1) : two.at(m - 1);
  return b == 1 ? three.at(m - 1) : both.at(m - 1);
}

template <int NY, int... M>
constexpr auto narrow_table(std::integer_sequence<int, M...>) {
  return std::array<Micro, sizeof...(M)>{narrow<NY, M + 1, 1>...};
}

template <class Product, int... M>
constexpr auto wide_listed_table(std::integer_sequence<int, M...>) {
  return std::array<Micro, sizeof...(M)>{wide_listed<Product, M + 1>...};
}
template <int... M>
constexpr auto narrow_listed_table(std::integer_sequence<int, M...>) {
  return std::array<Micro, sizeof...(M)>{narrow_listed<M + 1>...};
}

}  // namespace

Micro find_listed_micro(Products p, int m) {
  static constexpr auto all = std::make_integer_sequence<int, 24>();
  static constexpr auto pairs = wide_listed_table<Pairs>(all);
  static constexpr auto numbers = wide_listed_table<Numbers>(all);
  static constexpr auto narrow = narrow_listed_table(std::make_integer_sequence<int, 6>());
  if (p >= Products::pairs) return pairs.at(m - 1);
  return p == Products::avx512 ? numbers.at(m - 1) : narrow.at(m - 1);
}

Micro find_micro(Products p, int ny, int m, int b) {
  static constexpr auto one = narrow_table<1>(std::make_integer_sequence<int, 6>());
  static constexpr auto three = narrow_table<3>(std::make_integer_sequence<int, 2>());
  if (p >= Products::pairs) return find_wide<Pairs>(ny, m, b);
  if (p == Products::avx512) return find_wide<Numbers>(ny, m, b);
  return ny == 1 ? one.at(m - 1) : three.at(m - 1);
}

}  // namespace sluice
