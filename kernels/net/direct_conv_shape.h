// Sizes and padded copies that the direct convolutions share.
//
// Invariant: every position a tap can reach lies in the padded copy, so inner loops have no
// borders; what lies outside the image is zero, and so is a little slack after the last row.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/base/transpose.h"
#include "kernels/net/direct_conv.h"

namespace sluice {

// One or two or three numbers as z, y, x.
inline Size3 three(const std::vector<std::int64_t>& v, std::int64_t fill) {
  Size3 s{fill, fill, fill};
  std::copy(v.begin(), v.end(), s.end() - static_cast<std::ptrdiff_t>(v.size()));
  return s;
}
inline Size3 spatial(const at::Tensor& t) {
  return three({t.sizes().begin() + 2, t.sizes().end()}, 1);
}

inline Size3 dilation_of(const ConvSpec& spec) { return three(spec.dilation, 1); }
inline bool is_dilated(const ConvSpec& spec) { return dilation_of(spec) != Size3{1, 1, 1}; }

// [out, in / groups, kernel...], of a transposed convolution [in, out / groups, kernel...].
inline std::vector<std::int64_t> weight_shape(const ConvSpec& spec) {
  std::vector<std::int64_t> shape{spec.transposed ? spec.in : spec.out,
                                  (spec.transposed ? spec.out : spec.in) / spec.groups};
  shape.insert(shape.end(), spec.kernel.begin(), spec.kernel.end());
  return shape;
}

// The bits of numbers rounded to bfloat16, the upper half.
SLUICE_INLINE inline U16 as_bf16(const U16& bits) {
  H16 half;
  store(reinterpret_cast<Bf16Bits*>(&half), std::bit_cast<F16>(bits));
  return __builtin_convertvector(half, U16) << 16;
}

// The bits of the weights of n (at most 16) outputs for one input, [kernel position][16];
// `rounded` to bfloat16, the upper half.
inline void kernels_in_lanes(const float* w, std::int64_t to_next, std::int64_t n,
                             std::int64_t volume, bool rounded, std::uint32_t* to) {
  simd([=]() SLUICE_INLINE {
    if (volume == 1 && to_next == 1) {
      U16 lanes{};
      std::memcpy(&lanes, w, static_cast<std::size_t>(n) * 4);
      if (rounded) lanes = as_bf16(lanes);
      std::memcpy(to, &lanes, 64);
      return;
    }
    // 16 positions at a time, the last 16 from the end.
    for (std::int64_t next = 0; next < volume; next += 16) {
      const std::int64_t k = std::min(next, std::max<std::int64_t>(0, volume - 16));
      const std::int64_t some = std::min<std::int64_t>(16, volume - k);
      U16 rows[16] = {};
      for (std::int64_t l = 0; l < n; ++l) {
        const float* const at = w + l * to_next + k;
        if (some == 16)
          std::memcpy(&rows[l], at, 64);
        else
          for (std::int64_t i = 0; i < some; ++i) rows[l][i] = std::bit_cast<std::uint32_t>(at[i]);
        if (rounded) rows[l] = as_bf16(rows[l]);
      }
      transpose(rows);
      for (std::int64_t i = 0; i < some; ++i) std::memcpy(to + 16 * (k + i), &rows[i], 64);
    }
  });
}

// What a gradient of a weight (direct_conv_grad.cpp) sums: body(U, V, a number of their type).
template <class F>
at::Tensor with_u_and_v(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                        const F& body) {
  const at::Tensor& u = spec.transposed ? grad : x;
  const at::Tensor& v = spec.transposed ? x : grad;
  return u.scalar_type() == at::kFloat ? body(u, v, float{}) : body(u, v, Bf16Bits{});
}

// A gradient of a weight, [B][A][taps], of sums that stand 16 of B a vector: of_vector(vector)
// gives a function (tap, a) -> the 16 sums. Squares of 16 by 16 change rows and columns.
template <class F>
at::Tensor weights_of_lanes(at::IntArrayRef shape, std::int64_t A, std::int64_t B,
                            std::int64_t taps, const F& of_vector) {
  at::Tensor out = at::empty(shape, at::kFloat);
  float* const w = out.data_ptr<float>();
  team_for((B + 15) / 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<const float*> from(static_cast<std::size_t>(A * taps));
    for (std::int64_t vector = begin; vector < end; ++vector) {
      const auto sums = of_vector(vector);
      for (std::int64_t a = 0; a < A; ++a)
        for (std::int64_t k = 0; k < taps; ++k)
          from[static_cast<std::size_t>(a * taps + k)] = sums(k, a);
      float* const to = w + vector * 16 * A * taps;
      simd([&, n = std::min<std::int64_t>(16, B - vector * 16)]() SLUICE_INLINE {
        for (std::int64_t i = 0; i < A * taps; i += 16) {
          const std::int64_t some = std::min<std::int64_t>(16, A * taps - i);
          U16 rows[16] = {};
          for (std::int64_t j = 0; j < some; ++j) std::memcpy(&rows[j], from[i + j], 64);
          transpose(rows);
          for (std::int64_t l = 0; l < n; ++l)
            std::memcpy(to + l * A * taps + i, &rows[l], static_cast<std::size_t>(some) * 4);
        }
      });
    }
  });
  return out;
}

// A convolution of single positions knows neither rows nor samples.
inline bool of_positions(const ConvSpec& spec) {
  const auto all = [](const std::vector<std::int64_t>& v, std::int64_t n) {
    return std::all_of(v.begin(), v.end(), [n](std::int64_t one) { return one == n; });
  };
  return all(spec.kernel, 1) && all(spec.stride, 1) && all(spec.padding, 0) &&
         all(spec.output_padding, 0);
}
// So many positions in rows of at least `least`, or in one.
inline Size3 in_rows(std::int64_t positions, std::int64_t least) {
  std::int64_t rows = std::max<std::int64_t>(1, positions / least);
  while (positions % rows != 0) --rows;
  return {1, rows, positions / rows};
}
// Few long rows are quicker than many short ones.
inline Size3 long_rows(const ConvSpec& spec, const Size3& size) {
  constexpr std::int64_t least = 256;
  return of_positions(spec) ? in_rows(size[0] * size[1] * size[2], std::max(least, size[2])) : size;
}

// The taps of a gather (direct_conv.h) along one axis for the outputs of one residue, by ascending
// offset (which then goes up by ones).
struct Tap {
  std::int64_t offset, kernel;
};
inline std::vector<Tap> taps(bool transposed, std::int64_t kernel, std::int64_t stride,
                             std::int64_t pad, std::int64_t residue) {
  std::vector<Tap> out;
  for (std::int64_t k = 0; k < kernel; ++k) {
    if (!transposed)
      out.push_back({k - pad, k});
    else if ((residue + pad - k) % stride == 0)
      out.push_back({(residue + pad - k) / stride, k});
  }
  std::sort(out.begin(), out.end(), [](const Tap& a, const Tap& b) { return a.offset < b.offset; });
  return out;
}

// n numbers of one type as another.
template <class To, class From>
void copy_numbers(To* to, const From* from, std::int64_t n) {
  if constexpr (std::is_same_v<To, From>)
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
  else
    simd([=]() SLUICE_INLINE {
      each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE { store(to + i, load<V>(from + i)); });
    });
}

// One channels-last sample of numbers T from position `low` (not above 0) on, as numbers C; nothing
// is copied where there is nothing to change. Of its planes at most `kept` are there at once,
// counted round: few enough stay in the second-level cache from the copying to the last tap's
// reading.
template <class T, class C>
class PaddedRows {
 public:
  PaddedRows(const Size3& size, std::int64_t channels, const Size3& low, const Size3& need,
             std::int64_t kept)
      : size_(size), low_(low), padded_(need), channels_(channels) {
    const bool whole_words = channels * sizeof(C) % 4 == 0;
    direct_ = std::is_same_v<T, C> && low == Size3{0, 0, 0} && need == size && whole_words;
    if (direct_) kept = need[0];
    const std::int64_t plane = padded_[1] * padded_[2] * channels;
    for (std::int64_t z = 0; z < need[0]; ++z)
      planes_.push_back(z % kept * plane * static_cast<std::ptrdiff_t>(sizeof(C)));
    if (direct_) return;
    copy_ = Buffer<C>(kept * plane + 64);
    std::memset(copy_.data() + kept * plane, 0, 64);
  }
  // The planes [begin, end), counted from `low`, in place of those that are `kept` before them.
  void fill(const T* sample, std::int64_t begin, std::int64_t end) {
    if (direct_) {
      data_ = reinterpret_cast<const C*>(sample);
      return;
    }
    data_ = copy_.data();
    team_for((end - begin) * padded_[1], [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t r = from; r < to; ++r)
        fill_row(sample, begin + r / padded_[1], r % padded_[1]);
    });
  }
  const char* bytes() const { return reinterpret_cast<const char*>(data_); }
  // Bytes to the image's position (z, y, x).
  std::ptrdiff_t offset(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return planes_[static_cast<std::size_t>(z - low_[0])] +
           ((y - low_[1]) * padded_[2] + x - low_[2]) * channels_ *
               static_cast<std::ptrdiff_t>(sizeof(C));
  }

 private:
  void fill_row(const T* sample, std::int64_t z, std::int64_t y) {
    C* to = copy_.data() +
            planes_[static_cast<std::size_t>(z)] / static_cast<std::ptrdiff_t>(sizeof(C)) +
            y * padded_[2] * channels_;
    const std::int64_t iz = z + low_[0], iy = y + low_[1], left = -low_[2];
    const std::int64_t n = std::min(size_[2], padded_[2] - left);
    const auto clear = [&](std::int64_t from, std::int64_t count) {
      std::memset(to + from * channels_, 0, count * channels_ * sizeof(C));
    };
    if (iz < 0 || iz >= size_[0] || iy < 0 || iy >= size_[1]) return clear(0, padded_[2]);
    clear(0, left);
    copy_numbers(to + left * channels_, sample + (iz * size_[1] + iy) * size_[2] * channels_,
                 n * channels_);
    clear(left + n, padded_[2] - left - n);
  }

  Size3 size_, low_, padded_;
  std::int64_t channels_;
  bool direct_;
  std::vector<std::ptrdiff_t> planes_;  // bytes to each
  Buffer<C> copy_;
  const C* data_ = nullptr;
};

}  // namespace sluice
