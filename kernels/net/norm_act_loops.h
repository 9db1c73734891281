// The inner loops of norm_act: one block of channels-last values against per-channel numbers that
// are repeated over a period, so that every loop runs over plain contiguous memory.
//
//   memory   c0 c1 c2 c0 c1 c2 c0 ...      period: a multiple of C, of 16, and at least 128
//   numbers  a0 a1 a2 a0 a1 a2 a0 ...
//
// Invariant: a block starts at channel 0; its last, shorter tile takes the numbers' front part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/base/simd.h"
#include "kernels/net/norm_act_value.h"

namespace sluice {

inline int channel_period(std::int64_t channels) {
  const std::int64_t unit = std::lcm<std::int64_t>(channels, 16);
  return static_cast<int>(unit * ((127 + unit) / unit));
}

// Adds a period's sums up to channels.
inline void fold(const std::vector<float>& sums, int channels, float* out) {
  for (int c = 0; c < channels; ++c) out[c] = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) out[i % channels] += sums[i];
}

// Calls body(V, position, position in the period) over a block.
template <class F>
SLUICE_INLINE inline void each_tile(std::int64_t length, int period, const F& body) {
  for (std::int64_t base = 0; base < length; base += period) {
    const std::int64_t n = length - base < period ? length - base : period;
    each(n, [&]<class V>(V v, std::int64_t i) SLUICE_INLINE { body(v, base + i, i); });
  }
}

// out[0..C) = sum of x - origin, out[C..2C) = sum of its square.
template <class T>
void sum_block(const T* x, std::int64_t length, const float* origin, int period, int channels,
               float* out) {
  std::vector<float> sum(period), square(period);
  float *s = sum.data(), *q = square.data();
  simd([=]() SLUICE_INLINE {
    each_tile(length, period, [=]<class V>(V, std::int64_t at, std::int64_t i) SLUICE_INLINE {
      const V v = load<V>(x + at) - load<V>(origin + i);
      store(s + i, load<V>(s + i) + v);
      store(q + i, load<V>(q + i) + v * v);
    });
  });
  fold(sum, channels, out);
  fold(square, channels, out + channels);
}

template <class T>
void forward_block(const T* x, const T* residual, T* y, std::int64_t length, const float* scale,
                   const float* shift, float slope, int period) {
  const float low = kernels::NormActValue::least(slope);
  simd([=]() SLUICE_INLINE {
    each_tile(length, period, [=]<class V>(V, std::int64_t at, std::int64_t i) SLUICE_INLINE {
      const V u = load<V>(x + at) * load<V>(scale + i) + load<V>(shift + i);
      V v = u > 0.f ? u : slope * (u < low ? V{} + low : u);
      if (residual) v += load<V>(residual + at);
      store(y + at, v);
    });
  });
}

// With d = grad * act'(u): out[0..C) = sum d, out[C..2C) = sum d * (x - mean), out[2C] = the
// slope's gradient, the sum of grad * u over u <= 0.
template <class T>
void backward_sums_block(const T* grad, const T* x, std::int64_t length, const float* scale,
                         const float* shift, const float* mean, float slope, int period,
                         int channels, float* out) {
  std::vector<float> sum(period), product(period), below(period);
  float *s = sum.data(), *q = product.data(), *a = below.data();
  simd([=]() SLUICE_INLINE {
    each_tile(length, period, [=]<class V>(V, std::int64_t at, std::int64_t i) SLUICE_INLINE {
      const V v = load<V>(x + at), g = load<V>(grad + at);
      const V u = v * load<V>(scale + i) + load<V>(shift + i);
      const V d = u > 0.f ? g : slope * g;
      store(s + i, load<V>(s + i) + d);
      store(q + i, load<V>(q + i) + d * (v - load<V>(mean + i)));
      store(a + i, load<V>(a + i) + (u > 0.f ? V{} : g * u));
    });
  });
  fold(sum, channels, out);
  fold(product, channels, out + channels);
  out[2 * channels] = std::accumulate(below.begin(), below.end(), 0.f);
}

template <class T>
void backward_block(const T* grad, const T* x, T* dx, std::int64_t length, const float* scale,
                    const float* shift, const float* px, const float* q, float slope, int period) {
  simd([=]() SLUICE_INLINE {
    each_tile(length, period, [=]<class V>(V, std::int64_t at, std::int64_t i) SLUICE_INLINE {
      const V v = load<V>(x + at), g = load<V>(grad + at);
      const V u = v * load<V>(scale + i) + load<V>(shift + i);
      const V d = u > 0.f ? g : slope * g;
      store(dx + at, d * load<V>(scale + i) + v * load<V>(px + i) + load<V>(q + i));
    });
  });
}

}  // namespace sluice
