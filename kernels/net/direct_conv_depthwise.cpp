#include "kernels/net/direct_conv_depthwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/net/direct_conv_shape.h"

namespace sluice {
namespace {

constexpr int wide_lanes = 16, narrow_lanes = 8;
int lanes_of(Products p) { return p == Products::avx2 ? narrow_lanes : wide_lanes; }

// The channels' vectors; the last overlaps the one before where they are no multiple of it.
std::int64_t blocks_of(std::int64_t channels, int lanes) { return (channels + lanes - 1) / lanes; }
std::int64_t first_of(std::int64_t block, std::int64_t channels, int lanes) {
  return std::min(block * lanes, channels - lanes);
}

using F8Bits = std::uint16_t __attribute__((vector_size(16)));
using U8 = std::uint32_t __attribute__((vector_size(32)));

template <class V>
SLUICE_INLINE inline V numbers(const float* p) {
  return load<V>(p);
}
template <class V>
SLUICE_INLINE inline V numbers(const Bf16Bits* p) {
  if constexpr (std::is_same_v<V, F8>) {
    F8Bits bits;
    std::memcpy(&bits, p, sizeof bits);
    return std::bit_cast<F8>(__builtin_convertvector(bits, U8) << 16);
  } else {
    return load<V>(p);
  }
}
template <class V>
SLUICE_INLINE inline void put(float* p, const V& v) {
  store(p, v);
}
template <class V>
SLUICE_INLINE inline void put(Bf16Bits* p, const V& v) {
  if constexpr (std::is_same_v<V, F8>)
    for (int l = 0; l < 8; ++l) p[l] = to_bf16(v[l]);
  else
    store(p, v);
}

// ---- the inner loops ----------------------------------------------------------------------------

// A tap that lies in the image: where it reads, and which of the kernel's it is.
struct Reach {
  std::ptrdiff_t in, kernel;  // numbers
};

// Of one vector of channels at M positions:
//   out[m] = bias + residual[m] + sum over taps: weights[tap.kernel] in[tap.in + m step]
template <class T, class O>
struct TileTask {
  const T* in;
  const Reach* taps;
  std::int64_t n_taps, step;
  const float *weights, *bias;
  const T* residual;
  O* out;
  std::int64_t out_step;
};
// Of K taps and one vector of channels, over a row of n positions:
//   acc[tap.kernel] += sum over p: u[tap.in + p step] v[p channels]
template <class T>
struct SumTask {
  const T* u;
  const Reach* taps;
  std::int64_t step, channels, n;
  const T* v;
  float* acc;
};

template <class V, int M, class T, class O>
SLUICE_INLINE inline void tile(const TileTask<T, O>& t) {
  V acc[M];
#pragma GCC unroll 12
  for (int m = 0; m < M; ++m) acc[m] = t.bias ? load<V>(t.bias) : V{};
  for (std::int64_t k = 0; k < t.n_taps; ++k) {
    const V w = load<V>(t.weights + t.taps[k].kernel);
    const T* at = t.in + t.taps[k].in;
#pragma GCC unroll 12
    for (int m = 0; m < M; ++m) acc[m] += numbers<V>(at + m * t.step) * w;
  }
  if (t.residual)
#pragma GCC unroll 12
    for (int m = 0; m < M; ++m) acc[m] += numbers<V>(t.residual + m * t.out_step);
#pragma GCC unroll 12
  for (int m = 0; m < M; ++m) put(t.out + m * t.out_step, acc[m]);
}

template <class V, int K, class T>
SLUICE_INLINE inline void sum(const SumTask<T>& t) {
  V acc[K] = {};
  for (std::int64_t p = 0; p < t.n; ++p) {
    const V v = numbers<V>(t.v + p * t.channels);
    const T* at = t.u + p * t.step;
#pragma GCC unroll 27
    for (int k = 0; k < K; ++k) acc[k] += numbers<V>(at + t.taps[k].in) * v;
  }
#pragma GCC unroll 27
  for (int k = 0; k < K; ++k) {
    float* const to = t.acc + t.taps[k].kernel;
    store(to, load<V>(to) + acc[k]);
  }
}

template <int M, class T, class O>
SLUICE_AVX512 void wide_tile(const TileTask<T, O>& t) {
  tile<F16, M>(t);
}
template <int M, class T, class O>
void narrow_tile(const TileTask<T, O>& t) {
  tile<F8, M>(t);
}
template <int K, class T>
SLUICE_AVX512 void wide_sum(const SumTask<T>& t) {
  sum<F16, K>(t);
}
template <int K, class T>
void narrow_sum(const SumTask<T>& t) {
  sum<F8, K>(t);
}

constexpr int most_positions = 12;                                             // of a tile
constexpr int most_taps(Products p) { return p == Products::avx2 ? 14 : 27; }  // of a sum

template <class T, class O>
auto find_tile(Products p, std::int64_t m) {
  return [&]<int... M>(std::integer_sequence<int, M...>) {
    static constexpr std::array wide{wide_tile<M + 1, T, O>...},
        narrow{narrow_tile<M + 1, T, O>...};
    return (p == Products::avx2 ? narrow : wide).at(m - 1);
  }
  (std::make_integer_sequence<int, most_positions>());
}
template <class T>
auto find_sum(Products p, std::int64_t k) {
  return [&]<int... K, int... N>(std::integer_sequence<int, K...>,
                                 std::integer_sequence<int, N...>) {
    static constexpr std::array wide{wide_sum<K + 1, T>...};
    static constexpr std::array narrow{narrow_sum<N + 1, T>...};
    return p == Products::avx2 ? narrow.at(k - 1) : wide.at(k - 1);
  }
  (std::make_integer_sequence<int, most_taps(Products::avx512)>(),
   std::make_integer_sequence<int, most_taps(Products::avx2)>());
}

// ---- rows ---------------------------------------------------------------------------------------

// Positions along x whose taps lie in the image alike, and those taps.
struct Range {
  std::int64_t begin, end;
  std::vector<Tap> taps;
};

// Of n positions, of which x reads a row of `size` at step x + offset.
std::vector<Range> ranges_of(std::int64_t n, std::int64_t size, std::int64_t step,
                             const std::vector<Tap>& taps) {
  std::vector<Range> all;
  for (std::int64_t x = 0; x < n; ++x) {
    std::vector<Tap> inside;
    for (const Tap& t : taps)
      if (step * x + t.offset >= 0 && step * x + t.offset < size) inside.push_back(t);
    const auto same = [](const Tap& a, const Tap& b) { return a.kernel == b.kernel; };
    if (!all.empty() && std::equal(inside.begin(), inside.end(), all.back().taps.begin(),
                                   all.back().taps.end(), same))
      all.back().end = x + 1;
    else
      all.push_back({x, x + 1, std::move(inside)});
  }
  return all;
}

// All taps in the image of positions that read around row (z, y), `weights` numbers apart.
void reach_of(const std::vector<Tap>& zs, const std::vector<Tap>& ys, const std::vector<Tap>& xs,
              std::int64_t z, std::int64_t y, const Size3& size, const Size3& kernel,
              std::int64_t channels, std::int64_t weights, std::vector<Reach>& all) {
  all.clear();
  for (const Tap& tz : zs)
    for (const Tap& ty : ys) {
      const std::int64_t iz = z + tz.offset, iy = y + ty.offset;
      if (iz < 0 || iz >= size[0] || iy < 0 || iy >= size[1]) continue;
      for (const Tap& tx : xs)
        all.push_back({((iz * size[1] + iy) * size[2] + tx.offset) * channels,
                       ((tz.kernel * kernel[1] + ty.kernel) * kernel[2] + tx.kernel) * weights});
    }
}

}  // namespace

bool is_depthwise(const ConvSpec& spec) {
  return spec.groups > 1 && spec.groups == spec.in && spec.in == spec.out && spec.in >= wide_lanes;
}

// ---- gathers ------------------------------------------------------------------------------------

DepthwiseGather::DepthwiseGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint,
                                 Products products, at::ScalarType type)
    : products_(products),
      type_(type),
      channels_(spec.in),
      transposed_(spec.transposed != adjoint),
      stride_(three(spec.stride, 1)),
      kernel_(three(spec.kernel, 1)),
      pad_(three(spec.padding, 0)),
      weights_(weight.detach().to(type).to(at::kFloat).reshape({channels_, -1}).t().contiguous()) {}

template <class T, class O>
void DepthwiseGather::run_all(const at::Tensor& in, const float* bias, const at::Tensor& residual,
                              at::Tensor& out) const {
  const Size3 size = spatial(in), out_size = spatial(out), ones{1, 1, 1};
  const Size3 in_step = transposed_ ? ones : stride_, out_step = transposed_ ? stride_ : ones;
  const std::int64_t C = channels_, in_volume = in.numel() / in.size(0);
  const std::int64_t out_volume = out.numel() / out.size(0);
  const int lanes = lanes_of(products_);
  const float* const weights = weights_.const_data_ptr<float>();
  // The outputs of one residue by the stride.
  const auto run_class = [&](const Size3& residue, const T* from, const T* also, O* to) {
    std::vector<Tap> taps[3];
    Size3 count;
    for (int d = 0; d < 3; ++d) {
      taps[d] = sluice::taps(transposed_, kernel_[d], stride_[d], pad_[d], residue[d]);
      count[d] =
          std::max<std::int64_t>(0, (out_size[d] - residue[d] + out_step[d] - 1) / out_step[d]);
    }
    const auto ranges = ranges_of(count[2], size[2], in_step[2], taps[2]);
    team_for(count[0] * count[1], [&](std::int64_t begin, std::int64_t end) {
      std::vector<Reach> reach;
      for (std::int64_t row = begin; row < end; ++row)
        for (const Range& range : ranges) {
          const std::int64_t z = row / count[1], y = row % count[1];
          reach_of(taps[0], taps[1], range.taps, in_step[0] * z, in_step[1] * y, size, kernel_, C,
                   C, reach);
          const std::int64_t oz = out_step[0] * z + residue[0], oy = out_step[1] * y + residue[1];
          const std::int64_t out_row = (oz * out_size[1] + oy) * out_size[2] + residue[2];
          for (std::int64_t x = range.begin; x < range.end; x += most_positions)
            for (std::int64_t b = 0; b < blocks_of(C, lanes); ++b) {
              const std::int64_t c = first_of(b, C, lanes);
              const std::int64_t place = (out_row + out_step[2] * x) * C + c;
              find_tile<T, O>(products_, std::min<std::int64_t>(most_positions, range.end - x))(
                  {from + in_step[2] * x * C + c, reach.data(),
                   static_cast<std::int64_t>(reach.size()), in_step[2] * C, weights + c,
                   bias ? bias + c : nullptr, also ? also + place : nullptr, to + place,
                   out_step[2] * C});
            }
        }
    });
  };
  for (std::int64_t n = 0; n < in.size(0); ++n)
    for (std::int64_t rz = 0; rz < out_step[0]; ++rz)
      for (std::int64_t ry = 0; ry < out_step[1]; ++ry)
        for (std::int64_t rx = 0; rx < out_step[2]; ++rx)
          run_class({rz, ry, rx}, static_cast<const T*>(in.const_data_ptr()) + n * in_volume,
                    residual.defined()
                        ? static_cast<const T*>(residual.const_data_ptr()) + n * out_volume
                        : nullptr,
                    static_cast<O*>(out.data_ptr()) + n * out_volume);
}

void DepthwiseGather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                          at::Tensor& out) const {
  const float* const b = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  if (type_ == at::kFloat)
    run_all<float, float>(in, b, residual, out);
  else if (out.scalar_type() == at::kFloat)
    run_all<Bf16Bits, float>(in, b, residual, out);
  else
    run_all<Bf16Bits, Bf16Bits>(in, b, residual, out);
}

// ---- the weight's gradient ----------------------------------------------------------------------
//
// dW[k][c] = sum over positions p: U[s p + k - pad][c] V[p][c], a row at a time.

template <class T>
static at::Tensor weight_grad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v,
                              Products products) {
  const Size3 stride = three(spec.stride, 1), kernel = three(spec.kernel, 1);
  const Size3 pad = three(spec.padding, 0), size = spatial(v), u_size = spatial(u);
  std::vector<Tap> taps[3];
  for (int d = 0; d < 3; ++d) taps[d] = sluice::taps(false, kernel[d], stride[d], pad[d], 0);
  const auto ranges = ranges_of(size[2], u_size[2], stride[2], taps[2]);
  const std::int64_t C = u.size(1), volume = kernel[0] * kernel[1] * kernel[2];
  const int lanes = lanes_of(products);
  const std::int64_t most = most_taps(products), blocks = blocks_of(C, lanes);
  Buffer<float> sums(blocks * volume * lanes);
  std::fill_n(sums.data(), blocks * volume * lanes, 0.f);
  team_for(blocks, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Reach> reach;
    for (std::int64_t n = 0; n < u.size(0); ++n)
      for (std::int64_t row = 0; row < size[0] * size[1]; ++row)
        for (const Range& range : ranges) {
          reach_of(taps[0], taps[1], range.taps, stride[0] * (row / size[1]),
                   stride[1] * (row % size[1]), u_size, kernel, C, lanes, reach);
          for (std::int64_t b = begin; b < end; ++b) {
            const std::int64_t c = first_of(b, C, lanes);
            const T* from_u = static_cast<const T*>(u.const_data_ptr()) +
                              n * (u.numel() / u.size(0)) + stride[2] * range.begin * C + c;
            const T* from_v = static_cast<const T*>(v.const_data_ptr()) +
                              n * (v.numel() / v.size(0)) + (row * size[2] + range.begin) * C + c;
            const auto n_taps = static_cast<std::int64_t>(reach.size());
            for (std::int64_t k = 0; k < n_taps; k += most)
              find_sum<T>(products, std::min(most, n_taps - k))(
                  {from_u, reach.data() + k, stride[2] * C, C, range.end - range.begin, from_v,
                   sums.data() + b * volume * lanes});
          }
        }
  });
  at::Tensor out = at::empty(weight_shape(spec), at::kFloat);
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t l = 0; l < lanes; ++l)
      for (std::int64_t k = 0; k < volume; ++k)
        out.data_ptr<float>()[(first_of(b, C, lanes) + l) * volume + k] =
            sums[(b * volume + k) * lanes + l];
  return out;
}

at::Tensor depthwise_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                                 Products products) {
  return with_u_and_v(spec, x, grad, [&]<class T>(const at::Tensor& u, const at::Tensor& v, T) {
    return weight_grad<T>(spec, u, v, products);
  });
}

}  // namespace sluice
