#include "kernels/net/direct_conv_planes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/planes.h"

namespace sluice {
namespace {

constexpr std::int64_t most_channels = 12;       // of a result
constexpr std::int64_t most_positions = 16 * 6;  // of a tile
constexpr std::int64_t cache = 64 * 1024;        // numbers that stay in a core's second-level cache
constexpr std::int64_t near_numbers = 5 * 1024;  // and in its first-level one

// Loaded once, not again in each instruction that takes it (x86's can): most loads here meet two
// lines.
template <class V>
SLUICE_INLINE inline V load_once(const float* p) {
  V v = load<V>(p);
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 64)
    asm("" : "+v"(v));
  else
    asm("" : "+x"(v));
#endif
  return v;
}

// ---- the inner loop -----------------------------------------------------------------------------

// Sums of M channels at B vectors of positions:
//   out[m][p] = sum over taps k: weights[k][m] in[offsets[k] + p], + bias[m]
struct TileTask {
  const float* in;
  const std::ptrdiff_t* offsets;
  const float* weights;
  std::int64_t taps;
  const float* bias;
  float* out;
  std::int64_t step;  // numbers from one channel of `out` to the next
};
using Tile = void (*)(const TileTask&);

template <class V, int M, int B>
SLUICE_INLINE inline void tile(const TileTask& t) {
  constexpr int L = sizeof(V) / sizeof(float);
  V acc[M][B];
#pragma GCC unroll 12
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) acc[m][b] = V{};
  const float* w = t.weights;
  for (std::int64_t k = 0; k < t.taps; ++k, w += M) {
    const float* at = t.in + t.offsets[k];
    V v[B];
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) v[b] = load_once<V>(at + L * b);
#pragma GCC unroll 12
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) acc[m][b] += v[b] * w[m];
  }
#pragma GCC unroll 12
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) store(t.out + m * t.step + L * b, acc[m][b] + t.bias[m]);
}

template <int M, int B>
SLUICE_AVX512 void wide_tile(const TileTask& t) {
  tile<F16, M, B>(t);
}
template <int M, int B>
void narrow_tile(const TileTask& t) {
  tile<F8, M, B>(t);
}

// How many vectors of positions the registers hold beside M channels' sums.
constexpr int wide_most(int m) { return std::min(6, 31 / (m + 1)); }
constexpr int narrow_most(int m) { return std::min(6, 15 / (m + 1)); }

template <int M>
Tile wide_of(int b) {
  return []<int... B>(std::integer_sequence<int, B...>, int n) {
    static constexpr std::array<Tile, sizeof...(B)> all{wide_tile<M, B + 1>...};
    return all.at(n - 1);
  }
  (std::make_integer_sequence<int, wide_most(M)>(), b);
}
template <int M>
Tile narrow_of(int b) {
  return []<int... B>(std::integer_sequence<int, B...>, int n) {
    static constexpr std::array<Tile, sizeof...(B)> all{narrow_tile<M, B + 1>...};
    return all.at(n - 1);
  }
  (std::make_integer_sequence<int, narrow_most(M)>(), b);
}
Tile find_tile(Products p, std::int64_t m, std::int64_t b) {
  return [&]<int... M>(std::integer_sequence<int, M...>) {
    static constexpr std::array all{wide_of<M + 1>...}, narrow{narrow_of<M + 1>...};
    return (p == Products::avx2 ? narrow : all).at(m - 1)(static_cast<int>(b));
  }
  (std::make_integer_sequence<int, most_channels>());
}

// ---- planes -------------------------------------------------------------------------------------

// A row of the image, or of zeros beside it, in each channel's plane: `left` zeros, then n numbers,
// then zeros up to `width`.
template <class T>
void fill_row(const T* row, std::int64_t left, std::int64_t n, std::int64_t width,
              std::int64_t channels, float* to, std::int64_t step, std::vector<float>& as_float) {
  if (!row) left = width, n = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::fill_n(to + c * step, left, 0.f);
    std::fill_n(to + c * step + left + n, width - left - n, 0.f);
  }
  if (n == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    to_planes(row, n, channels, to + left, step);
  } else {
    as_float.resize(static_cast<std::size_t>(n * channels));
    copy_numbers(as_float.data(), row, n * channels);
    to_planes(as_float.data(), n, channels, to + left, step);
  }
}

}  // namespace

// ---- gathers ------------------------------------------------------------------------------------

bool PlaneGather::fits(const ConvSpec& spec, bool adjoint, Products products) {
  const Size3 stride = three(spec.stride, 1), kernel = three(spec.kernel, 1);
  const bool transposed = spec.transposed != adjoint;
  return numbers_a_word(products) == 1 && (adjoint ? spec.in : spec.out) <= most_channels &&
         (transposed || stride == Size3{1, 1, 1}) && kernel[0] * kernel[1] * kernel[2] > 1;
}

PlaneGather::PlaneGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint,
                         Products products, at::ScalarType type)
    : products_(products),
      type_(type),
      in_channels_(adjoint ? spec.out : spec.in),
      out_channels_(adjoint ? spec.in : spec.out) {
  const bool transposed = spec.transposed != adjoint;
  const Size3 kernel = three(spec.kernel, 1), pad = three(spec.padding, 0);
  out_step_ = transposed ? three(spec.stride, 1) : Size3{1, 1, 1};
  const at::Tensor rounded = weight.detach().to(type).to(at::kFloat).contiguous();
  const float* const w = rounded.const_data_ptr<float>();
  const std::int64_t volume = kernel[0] * kernel[1] * kernel[2];
  // Of [out][in][z][y][x], or [in][out][...].
  const std::int64_t of_out = (transposed ? 1 : in_channels_) * volume;
  const std::int64_t of_in = (transposed ? out_channels_ : 1) * volume;
  for (std::int64_t rz = 0; rz < out_step_[0]; ++rz)
    for (std::int64_t ry = 0; ry < out_step_[1]; ++ry)
      for (std::int64_t rx = 0; rx < out_step_[2]; ++rx) {
        Class c{{rz, ry, rx}, {}, {}};
        const auto along = [&](int d) {
          return sluice::taps(transposed, kernel[d], out_step_[d], pad[d], c.residue[d]);
        };
        const auto xs = along(2), ys = along(1), zs = along(0);
        // In the order that Gather sums in.
        for (const auto& z : zs)
          for (const auto& y : ys)
            for (const auto& x : xs) {
              const Size3 offset{z.offset, y.offset, x.offset};
              for (int d = 0; d < 3; ++d) {
                low_[d] = std::min(low_[d], offset[d]);
                high_[d] = std::max(high_[d], offset[d]);
              }
              const std::int64_t at = (z.kernel * kernel[1] + y.kernel) * kernel[2] + x.kernel;
              for (std::int64_t ci = 0; ci < in_channels_; ++ci) {
                c.taps.push_back({offset, ci});
                for (std::int64_t co = 0; co < out_channels_; ++co)
                  c.weights.push_back(w[ci * of_in + co * of_out + at]);
              }
            }
        classes_.push_back(std::move(c));
      }
}

template <class T>
struct PlaneGather::Job {
  const PlaneGather& g;
  Size3 size, out_size, padded;
  const float* bias;  // one a channel
  const T* in = nullptr;
  const T* residual = nullptr;
  void* out = nullptr;
  bool wide;  // out is float32
  std::int64_t channel = padded[0] * padded[1] * padded[2];
  Buffer<float> planes{g.in_channels_ * channel + most_positions};  // [c][z][y][x]
  std::vector<std::vector<std::ptrdiff_t>> offsets = {};            // by class

  void find_offsets();
  void fill() const;
  std::int64_t rows_together() const;
  void run() const;
  // The outputs of all residues along x for one along z and y.
  void run_rows(std::size_t first_class, std::int64_t z, std::int64_t y, std::int64_t n,
                std::vector<float>& sums, std::vector<float>& row) const;
  template <class O>
  void store_row(O* to, const float* sums, std::int64_t step, const T* residual,
                 std::vector<float>& row) const;
};

template <class T>
void PlaneGather::Job<T>::find_offsets() {
  for (const Class& c : g.classes_) {
    offsets.emplace_back();
    for (const Tap& t : c.taps)
      offsets.back().push_back(t.channel * channel +
                               ((t.offset[0] - g.low_[0]) * padded[1] + t.offset[1] - g.low_[1]) *
                                   padded[2] +
                               t.offset[2] - g.low_[2]);
  }
  std::fill_n(planes.data() + g.in_channels_ * channel, most_positions, 0.f);
}

template <class T>
void PlaneGather::Job<T>::fill() const {
  const std::int64_t left = -g.low_[2], n = std::min(size[2], padded[2] - left);
  team_for(padded[0] * padded[1], [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> as_float;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t z = r / padded[1] + g.low_[0], y = r % padded[1] + g.low_[1];
      const bool inside = z >= 0 && z < size[0] && y >= 0 && y < size[1];
      const T* row = inside ? in + (z * size[1] + y) * size[2] * g.in_channels_ : nullptr;
      fill_row(row, left, n, padded[2], g.in_channels_, planes.data() + r * padded[2], channel,
               as_float);
    }
  });
}

// As many as leave what they read in the cache.
template <class T>
std::int64_t PlaneGather::Job<T>::rows_together() const {
  const std::int64_t deep = g.high_[0] - g.low_[0] + 1,
                     wide_rows = deep * g.in_channels_ * padded[2];
  return std::clamp<std::int64_t>(cache / wide_rows - (g.high_[1] - g.low_[1]), 1,
                                  1 + 1024 / padded[2]);
}

// Those of all residues are made while what they read is in the cache.
template <class T>
void PlaneGather::Job<T>::run() const {
  const auto count = [&](int d, std::int64_t residue) {
    return std::max<std::int64_t>(0, (out_size[d] - residue + g.out_step_[d] - 1) / g.out_step_[d]);
  };
  const std::int64_t zs = count(0, 0), ys = count(1, 0), together = rows_together();
  const std::int64_t blocks = (ys + together - 1) / together;
  team_for(zs * blocks, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sums, row;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::size_t c = 0; c < g.classes_.size();
           c += static_cast<std::size_t>(g.out_step_[2])) {
        const Size3& residue = g.classes_[c].residue;
        const std::int64_t z = i / blocks, y = i % blocks * together;
        const std::int64_t n = std::min(together, count(1, residue[1]) - y);
        if (z < count(0, residue[0]) && n > 0) run_rows(c, z, y, n, sums, row);
      }
  });
}

template <class T>
void PlaneGather::Job<T>::run_rows(std::size_t first_class, std::int64_t z, std::int64_t y,
                                   std::int64_t n, std::vector<float>& sums,
                                   std::vector<float>& row) const {
  const std::int64_t W = padded[2], M = g.out_channels_,
                     lanes = g.products_ == Products::avx2 ? 8 : 16;
  const std::int64_t across = (out_size[2] + g.out_step_[2] - 1) / g.out_step_[2];
  const std::int64_t vectors = ((n - 1) * W + across + lanes - 1) / lanes, step = lanes * vectors;
  const std::int64_t most =
      lanes == 8 ? narrow_most(static_cast<int>(M)) : wide_most(static_cast<int>(M));
  sums.resize(static_cast<std::size_t>(g.out_step_[2] * M * step));
  for (std::int64_t r = 0; r < g.out_step_[2]; ++r) {
    const std::size_t number = first_class + static_cast<std::size_t>(r);
    const Class& c = g.classes_[number];
    TileTask t{nullptr,
               offsets[number].data(),
               c.weights.data(),
               static_cast<std::int64_t>(c.taps.size()),
               bias,
               nullptr,
               step};
    for (std::int64_t v = 0; v < vectors; v += most) {
      t.in = planes.data() + (z * padded[1] + y) * W + v * lanes;
      t.out = sums.data() + r * M * step + v * lanes;
      find_tile(g.products_, M, std::min(most, vectors - v))(t);
    }
  }
  const Size3& residue = g.classes_[first_class].residue;
  const std::int64_t values = out_size[2] * M;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t oz = g.out_step_[0] * z + residue[0];
    const std::int64_t oy = g.out_step_[1] * (y + i) + residue[1];
    const std::int64_t at = (oz * out_size[1] + oy) * values;
    const T* also = residual ? residual + at : nullptr;
    if (wide)
      store_row(static_cast<float*>(out) + at, sums.data() + i * W, step, also, row);
    else
      store_row(static_cast<T*>(out) + at, sums.data() + i * W, step, also, row);
  }
}

template <class T>
template <class O>
void PlaneGather::Job<T>::store_row(O* to, const float* sums, std::int64_t step, const T* also,
                                    std::vector<float>& row) const {
  const std::int64_t channels = g.out_step_[2] * g.out_channels_;
  const std::int64_t values = out_size[2] * g.out_channels_;
  if constexpr (std::is_same_v<O, float>)
    if (!also) return from_planes(sums, step, values, channels, to);
  row.resize(static_cast<std::size_t>(values));
  from_planes(sums, step, values, channels, row.data());
  const float* from = row.data();
  simd([=]() SLUICE_INLINE {
    each(values, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      V v = load<V>(from + i);
      if (also) v += load<V>(also + i);
      store(to + i, v);
    });
  });
}

template <class T>
void PlaneGather::run_all(const at::Tensor& in, const float* bias, const at::Tensor& residual,
                          at::Tensor& out) const {
  const Size3 size = spatial(in), out_size = spatial(out);
  Size3 padded;  // positions that taps reach, from low_ on
  for (int d = 0; d < 3; ++d)
    padded[d] = (out_size[d] + out_step_[d] - 1) / out_step_[d] + high_[d] - low_[d];
  const std::int64_t in_volume = in.numel() / in.size(0), out_volume = out.numel() / out.size(0);
  Job<T> job{*this, size, out_size, padded, bias};
  job.wide = out.scalar_type() == at::kFloat;
  job.find_offsets();
  for (std::int64_t n = 0; n < in.size(0); ++n) {
    job.in = static_cast<const T*>(in.const_data_ptr()) + n * in_volume;
    job.out = static_cast<char*>(out.data_ptr()) + n * out_volume * out.element_size();
    if (residual.defined())
      job.residual = static_cast<const T*>(residual.const_data_ptr()) + n * out_volume;
    job.fill();
    job.run();
  }
}

void PlaneGather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                      at::Tensor& out) const {
  std::array<float, most_channels> b{};
  if (bias.defined()) std::copy_n(bias.const_data_ptr<float>(), out_channels_, b.begin());
  if (type_ == at::kFloat)
    run_all<float>(in, b.data(), residual, out);
  else
    run_all<Bf16Bits>(in, b.data(), residual, out);
}

// ---- the weight's gradient ----------------------------------------------------------------------
//
// dW[b][a][t] = sum over positions p: U[a][p + offset_t] V[b][p], where V's border is zero. Parts
// of the samples are summed each by one thread, and the parts' sums added in their order.

namespace {

// Sums of M planes of U (each at its offset) and B of V:  acc[m][b] += U[offsets[m] + p] V[b][p]
struct SumTask {
  const float* u;
  const std::ptrdiff_t* offsets;
  const float* v;
  std::int64_t v_step, positions;  // a multiple of 16
  float* acc;                      // [m][b][16]
};
using Sum = void (*)(const SumTask&);

template <class V, int B, int M>
SLUICE_INLINE inline void sum(const SumTask& t) {
  constexpr int L = sizeof(V) / sizeof(float);
  V acc[M][B];
#pragma GCC unroll 32
  for (int i = 0; i < M * B; ++i) (&acc[0][0])[i] = load<V>(t.acc + 16 * i);
  const float* at[M];
  for (int m = 0; m < M; ++m) at[m] = t.u + t.offsets[m];
  for (std::int64_t p = 0; p < t.positions; p += L) {
    V v[B];
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) v[b] = load_once<V>(t.v + b * t.v_step + p);
#pragma GCC unroll 32
    for (int m = 0; m < M; ++m) {
      const V u = load_once<V>(at[m] + p);
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) acc[m][b] += u * v[b];
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < M * B; ++i) store(t.acc + 16 * i, (&acc[0][0])[i]);
}

template <int B, int M>
SLUICE_AVX512 void wide_sum(const SumTask& t) {
  sum<F16, B, M>(t);
}
template <int B, int M>
void narrow_sum(const SumTask& t) {
  sum<F8, B, M>(t);
}

constexpr int sums_side_by_side = 4;  // of V's channels
constexpr int sums_of(Products p, int b) { return ((p == Products::avx2 ? 16 : 32) - b - 1) / b; }

template <int B>
Sum sum_of(Products p, int m) {
  return [&]<int... M, int... N>(std::integer_sequence<int, M...>,
                                 std::integer_sequence<int, N...>) {
    static constexpr std::array<Sum, sizeof...(M)> wide{wide_sum<B, M + 1>...};
    static constexpr std::array<Sum, sizeof...(N)> narrow{narrow_sum<B, N + 1>...};
    return p == Products::avx2 ? narrow.at(m - 1) : wide.at(m - 1);
  }
  (std::make_integer_sequence<int, sums_of(Products::avx512, B)>(),
   std::make_integer_sequence<int, sums_of(Products::avx2, B)>());
}
Sum find_sum(Products p, int b, int m) {
  static constexpr std::array by_b{sum_of<1>, sum_of<2>, sum_of<3>, sum_of<4>};
  return by_b.at(b - 1)(p, m);
}

// Halves onto halves.
float sum_of_lanes(const float* p) {
  using F4 = float __attribute__((vector_size(16)));
  const F8 eight = load<F8>(p) + load<F8>(p + 8);
  const F4 four =
      std::bit_cast<std::array<F4, 2>>(eight)[0] + std::bit_cast<std::array<F4, 2>>(eight)[1];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// n in the fewest even parts of at most `most`.
std::int64_t even_part(std::int64_t n, std::int64_t most) {
  const std::int64_t parts = (n + most - 1) / most;
  return (n + parts - 1) / parts;
}

template <class T>
struct PlaneWeightGrad {
  Products products;
  Size3 kernel, pad, u_size, v_size;
  std::int64_t A, B;
  std::int64_t width = v_size[2] + kernel[2] - 1;  // of a row of planes

  // Rows of V that are summed at once.
  struct Part {
    std::int64_t sample, z, y, zs, ys;
  };
  // What a thread works with.
  struct Work {
    Buffer<float> v;  // aligned
    std::vector<float> u, as_float, acc;
    std::vector<std::ptrdiff_t> offsets;
  };

  std::int64_t weights() const { return A * B * kernel[0] * kernel[1] * kernel[2]; }
  std::vector<Part> parts(std::int64_t samples) const;
  void sum_part(const T* u, const T* v, const Part& part, Work& work, float* out) const;
  at::Tensor add(const T* u, const T* v, std::int64_t samples, at::IntArrayRef shape) const;
};

template <class T>
std::vector<typename PlaneWeightGrad<T>::Part> PlaneWeightGrad<T>::parts(
    std::int64_t samples) const {
  // Numbers of one row of V and what it reads of U, by how many rows stand beside it.
  const auto numbers = [&](std::int64_t zs, std::int64_t ys) {
    return width * (zs * ys * B + (zs + kernel[0] - 1) * (ys + kernel[1] - 1) * A);
  };
  std::int64_t ys = v_size[1], zs = 1;
  while (ys > 1 && numbers(1, ys) > 4 * cache) ys = (ys + 1) / 2;
  while (ys == v_size[1] && zs < v_size[0] && numbers(zs + 1, ys) <= 4 * cache) ++zs;
  zs = even_part(v_size[0], zs);
  std::vector<Part> all;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t z = 0; z < v_size[0]; z += zs)
      for (std::int64_t y = 0; y < v_size[1]; y += ys)
        all.push_back({n, z, y, std::min(zs, v_size[0] - z), std::min(ys, v_size[1] - y)});
  return all;
}

template <class T>
void PlaneWeightGrad<T>::sum_part(const T* from_u, const T* from_v, const Part& part, Work& w,
                                  float* out) const {
  from_u += part.sample * u_size[0] * u_size[1] * u_size[2] * A;
  from_v += part.sample * v_size[0] * v_size[1] * v_size[2] * B;
  const std::int64_t u_rows = part.ys + kernel[1] - 1, u_planes = part.zs + kernel[0] - 1;
  const std::int64_t u_plane = u_rows * width, u_step = u_planes * u_plane;
  const std::int64_t positions = (part.ys * width + 15) / 16 * 16, v_step = part.zs * positions;
  w.u.resize(static_cast<std::size_t>(A * u_step + 32));
  w.v = Buffer<float>(B * v_step);
  for (std::int64_t z = 0; z < u_planes; ++z)
    for (std::int64_t y = 0; y < u_rows; ++y) {
      const std::int64_t iz = part.z + z - pad[0], iy = part.y + y - pad[1];
      const bool inside = iz >= 0 && iz < u_size[0] && iy >= 0 && iy < u_size[1];
      fill_row(inside ? from_u + (iz * u_size[1] + iy) * u_size[2] * A : nullptr, pad[2],
               std::min(u_size[2], width - pad[2]), width, A, w.u.data() + z * u_plane + y * width,
               u_step, w.as_float);
    }
  std::fill(w.u.end() - 32, w.u.end(), 0.f);
  for (std::int64_t z = 0; z < part.zs; ++z)
    for (std::int64_t y = 0; y < part.ys; ++y)
      fill_row(from_v + ((part.z + z) * v_size[1] + part.y + y) * v_size[2] * B, 0, v_size[2],
               y + 1 < part.ys ? width : positions - y * width, B,
               w.v.data() + z * positions + y * width, v_step, w.as_float);

  const std::int64_t M = A * kernel[2], volume = kernel[0] * kernel[1] * kernel[2];
  const std::int64_t bs = even_part(B, sums_side_by_side);
  const std::int64_t ms = even_part(M, sums_of(products, static_cast<int>(bs)));
  const auto each_tile = [&](const auto& body) {
    for (std::int64_t b = 0; b < B; b += bs)
      for (std::int64_t m = 0; m < M; m += ms) body(b, std::min(bs, B - b), m, std::min(ms, M - m));
  };
  w.offsets.resize(static_cast<std::size_t>(M));
  for (std::int64_t m = 0; m < M; ++m)
    w.offsets[static_cast<std::size_t>(m)] = m / kernel[2] * u_step + m % kernel[2];
  w.acc.resize(static_cast<std::size_t>(M * B * 16));
  const std::int64_t chunk = std::max<std::int64_t>(128, near_numbers / (A + B) / 16 * 16);
  for (std::int64_t k = 0; k < kernel[0] * kernel[1]; ++k) {
    std::fill(w.acc.begin(), w.acc.end(), 0.f);
    for (std::int64_t z = 0; z < part.zs; ++z)
      for (std::int64_t p = 0; p < positions; p += chunk)
        each_tile([&](std::int64_t b, std::int64_t nb, std::int64_t m, std::int64_t nm) {
          find_sum(products, static_cast<int>(nb), static_cast<int>(nm))(
              {w.u.data() + (z + k / kernel[1]) * u_plane + k % kernel[1] * width + p,
               w.offsets.data() + m, w.v.data() + b * v_step + z * positions + p, v_step,
               std::min(chunk, positions - p), w.acc.data() + (b * M + m * nb) * 16});
        });
    each_tile([&](std::int64_t b, std::int64_t nb, std::int64_t m, std::int64_t nm) {
      for (std::int64_t i = 0; i < nm * nb; ++i) {
        const std::int64_t of_m = m + i / nb;
        out[((b + i % nb) * A + of_m / kernel[2]) * volume + k * kernel[2] + of_m % kernel[2]] =
            sum_of_lanes(w.acc.data() + (b * M + m * nb + i) * 16);
      }
    });
  }
}

template <class T>
at::Tensor PlaneWeightGrad<T>::add(const T* u, const T* v, std::int64_t samples,
                                   at::IntArrayRef shape) const {
  constexpr std::int64_t together = 32;  // parts whose sums wait to be added
  const std::vector<Part> all = parts(samples);
  const auto n = static_cast<std::int64_t>(all.size());
  at::Tensor out = at::zeros(shape, at::kFloat);
  float* const sums = out.data_ptr<float>();
  Buffer<float> of_parts(std::min(together, n) * weights());
  for (std::int64_t first = 0; first < n; first += together) {
    const std::int64_t some = std::min(together, n - first);
    team_for(some, [&](std::int64_t begin, std::int64_t end) {
      Work work;
      for (std::int64_t i = begin; i < end; ++i)
        sum_part(u, v, all[static_cast<std::size_t>(first + i)], work,
                 of_parts.data() + i * weights());
    });
    for (std::int64_t i = 0; i < some; ++i)
      for (std::int64_t k = 0; k < weights(); ++k) sums[k] += of_parts[i * weights() + k];
  }
  return out;
}

template <class T>
at::Tensor weight_grad_of(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v,
                          Products products) {
  const PlaneWeightGrad<T> g{
      products, three(spec.kernel, 1), three(spec.padding, 0), spatial(u), spatial(v), u.size(1),
      v.size(1)};
  return g.add(static_cast<const T*>(u.const_data_ptr()), static_cast<const T*>(v.const_data_ptr()),
               u.size(0), weight_shape(spec));
}

}  // namespace

bool plane_weight_grad_fits(const ConvSpec& spec, Products products) {
  const std::int64_t a = spec.transposed ? spec.out : spec.in,
                     b = spec.transposed ? spec.in : spec.out;
  const Size3 kernel = three(spec.kernel, 1);
  return numbers_a_word(products) == 1 && b <= most_channels && a <= 4 * most_channels &&
         three(spec.stride, 1) == Size3{1, 1, 1} && kernel[0] * kernel[1] * kernel[2] > 1;
}

at::Tensor plane_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                             Products products) {
  return with_u_and_v(spec, x, grad, [&]<class T>(const at::Tensor& u, const at::Tensor& v, T) {
    return weight_grad_of<T>(spec, u, v, products);
  });
}

}  // namespace sluice
