#include "kernels/net/planes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>

#include "kernels/base/simd.h"
#include "kernels/base/transpose.h"

namespace sluice {

#if defined(__x86_64__)
namespace {

constexpr std::int64_t few = 8;  // channels, up to which lanes are picked one by one

// Which lanes of the second vector go where in the first: of 16 positions of C channels, planes
// are C vectors and so are the positions in their order.
struct Picks {
  struct Pick {
    alignas(64) std::array<std::int32_t, 16> lane;
    std::uint16_t here;  // the lanes of the first that are filled from the second
  };
  std::array<std::array<Pick, few>, few> plane_from_row{}, row_from_plane{};

  explicit Picks(int channels) {
    for (int l = 0; l < 16 * channels; ++l) {
      const int c = l % channels, x = l / channels;
      add(plane_from_row[c][l / 16], x, l % 16);
      add(row_from_plane[l / 16][c], l % 16, x);
    }
  }
  static void add(Pick& pick, int to, int from) {
    pick.lane[to] = from;
    pick.here = static_cast<std::uint16_t>(pick.here | 1u << to);
  }
  static const Picks& of(std::int64_t channels) {
    static const std::array<Picks, few> all{Picks(1), Picks(2), Picks(3), Picks(4),
                                            Picks(5), Picks(6), Picks(7), Picks(8)};
    return all[channels - 1];
  }
};

constexpr __mmask16 first(std::int64_t n) {
  return static_cast<__mmask16>((1u << std::clamp<std::int64_t>(n, 0, 16)) - 1);
}

template <class Table>
SLUICE_AVX512 inline __m512 picked(const Table& from, const __m512* vectors, std::int64_t n) {
  __m512 v = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; ++i)
    v = _mm512_mask_permutexvar_ps(v, from[i].here, _mm512_load_si512(from[i].lane.data()),
                                   vectors[i]);
  return v;
}

SLUICE_AVX512 void few_to_planes(const float* from, std::int64_t n, std::int64_t C, float* to,
                                 std::int64_t step) {
  const Picks& picks = Picks::of(C);
  for (std::int64_t x = 0; x < n; x += 16) {
    __m512 rows[few];
    for (std::int64_t i = 0; i < C; ++i)
      rows[i] = _mm512_maskz_loadu_ps(first((n - x) * C - 16 * i), from + x * C + 16 * i);
    for (std::int64_t c = 0; c < C; ++c)
      _mm512_mask_storeu_ps(to + c * step + x, first(n - x),
                            picked(picks.plane_from_row[c], rows, C));
  }
}

SLUICE_AVX512 void few_from_planes(const float* from, std::int64_t step, std::int64_t values,
                                   std::int64_t C, float* to) {
  const Picks& picks = Picks::of(C);
  const std::int64_t n = (values + C - 1) / C;
  for (std::int64_t x = 0; x < n; x += 16) {
    __m512 planes[few];
    for (std::int64_t c = 0; c < C; ++c)
      planes[c] = _mm512_maskz_loadu_ps(first(n - x), from + c * step + x);
    for (std::int64_t i = 0; i < C; ++i)
      _mm512_mask_storeu_ps(to + x * C + 16 * i, first(values - x * C - 16 * i),
                            picked(picks.row_from_plane[i], planes, C));
  }
}

// A square of 16 rows, `from_step` numbers apart, transposed; those that are not there are zero.
SLUICE_AVX512 inline void square(const float* from, std::int64_t from_step, std::int64_t rows,
                                 const __mmask16 lanes, U16 (&v)[16]) {
  for (std::int64_t i = 0; i < 16; ++i)
    v[i] = i < rows ? reinterpret_cast<U16>(_mm512_maskz_loadu_ps(lanes, from + i * from_step))
                    : U16{};
  transpose(v);
}

SLUICE_AVX512 void many_to_planes(const float* from, std::int64_t n, std::int64_t C, float* to,
                                  std::int64_t step) {
  for (std::int64_t x = 0; x < n; x += 16)
    for (std::int64_t c = 0; c < C; c += 16) {
      U16 v[16];
      square(from + x * C + c, C, n - x, first(C - c), v);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(16, C - c); ++i)
        _mm512_mask_storeu_ps(to + (c + i) * step + x, first(n - x),
                              reinterpret_cast<__m512>(v[i]));
    }
}

SLUICE_AVX512 void many_from_planes(const float* from, std::int64_t step, std::int64_t values,
                                    std::int64_t C, float* to) {
  const std::int64_t n = (values + C - 1) / C;
  for (std::int64_t x = 0; x < n; x += 16)
    for (std::int64_t c = 0; c < C; c += 16) {
      U16 v[16];
      square(from + c * step + x, step, C - c, first(n - x), v);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(16, n - x); ++i)
        _mm512_mask_storeu_ps(to + (x + i) * C + c,
                              first(std::min(C - c, values - (x + i) * C - c)),
                              reinterpret_cast<__m512>(v[i]));
    }
}

}  // namespace
#endif

void to_planes(const float* from, std::int64_t n, std::int64_t channels, float* to,
               std::int64_t step) {
#if defined(__x86_64__)
  if (has_avx512())
    return (channels <= few ? few_to_planes : many_to_planes)(from, n, channels, to, step);
#endif
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t x = 0; x < n; ++x) to[c * step + x] = from[x * channels + c];
}

void from_planes(const float* from, std::int64_t step, std::int64_t values, std::int64_t channels,
                 float* to) {
#if defined(__x86_64__)
  if (has_avx512())
    return (channels <= few ? few_from_planes : many_from_planes)(from, step, values, channels, to);
#endif
  const std::int64_t whole = values / channels, rest = values % channels;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t x = 0; x < whole + (c < rest); ++x) to[x * channels + c] = from[c * step + x];
}

}  // namespace sluice
