#include "kernels/image/intensity.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/error.h"
#include "kernels/base/into.h"
#include "kernels/base/simd.h"
#include "kernels/image/float_image.h"

namespace sluice::kernels {
namespace {

// Calls fn(part, first voxel, voxels) for the whole image, or for each channel.
template <class Fn>
void for_each_part(const at::Tensor& image, bool channel_wise, Fn&& fn) {
  const std::int64_t parts = channel_wise ? image.size(0) : 1;
  const std::int64_t n = parts > 0 ? image.numel() / parts : 0;
  for (std::int64_t i = 0; i < parts; ++i) fn(i, i * n, n);
}

// NaN, both of them, where a voxel is NaN.
Range range_of(const float* x, std::int64_t n) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  int has_nan = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(| : has_nan)
  for (std::int64_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    has_nan |= x[i] != x[i];
  }
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  return has_nan ? Range{nan, nan} : Range{low, high};
}

// A template, since a choice inside the loop would keep one of the two from being vectorised.
template <bool nonzero>
Moments moments_of(const float* x, std::int64_t n) {
  const float* first = nonzero ? std::find_if(x, x + n, [](float v) { return v != 0; }) : x;
  if (first == x + n) return {};
  const double about = *first;
  double sum = 0, squares = 0;
  std::int64_t count = nonzero ? 0 : n;
#pragma omp simd reduction(+ : sum, squares, count)
  for (std::int64_t i = 0; i < n; ++i) {
    const bool used = !nonzero || x[i] != 0.0f;
    const double d = used ? x[i] - about : 0.0;
    sum += d;
    squares += d * d;
    if (nonzero) count += used;
  }
  const double shift = sum / static_cast<double>(count);
  const double variance = squares / static_cast<double>(count) - shift * shift;
  return {about + shift, std::sqrt(std::max(variance, 0.0)), count};
}

constexpr std::int64_t blocks = 64, chunk = 4 * blocks;  // a chunk stays in the first cache

// Normals `start` to `start + chunk` of a stream, in loops over one word each that vectorise.
void draw_normals(const Random::Stream& stream, std::int64_t start, float* out) {
  simd([=, &stream]() SLUICE_INLINE {
    std::uint32_t word[4][blocks];
    float drawn[4][blocks];
#pragma omp simd
    for (std::int64_t b = 0; b < blocks; ++b) {
      const Block4 block = philox(start / 4 + b, stream.counter_high, stream.key);
      for (int w = 0; w < 4; ++w) word[w][b] = block.v[w];
    }
    for (int w = 0; w < 4; w += 2)
#pragma omp simd
      for (std::int64_t b = 0; b < blocks; ++b)
        normal_pair_fast(word[w][b], word[w + 1][b], drawn[w][b], drawn[w + 1][b]);
    for (std::int64_t b = 0; b < blocks; ++b)
      for (int w = 0; w < 4; ++w) out[4 * b + w] = drawn[w][b];
  });
}

}  // namespace

std::vector<Range> ranges(const at::Tensor& image, bool channel_wise) {
  const at::Tensor x = float_image(image);
  std::vector<Range> out;
  for_each_part(x, channel_wise, [&](std::int64_t, std::int64_t first, std::int64_t n) {
    out.push_back(range_of(x.const_data_ptr<float>() + first, n));
  });
  return out;
}

std::vector<Moments> moments(const at::Tensor& image, bool nonzero, bool channel_wise) {
  const at::Tensor x = float_image(image);
  std::vector<Moments> out;
  for_each_part(x, channel_wise, [&](std::int64_t, std::int64_t first, std::int64_t n) {
    const float* part = x.const_data_ptr<float>() + first;
    out.push_back(nonzero ? moments_of<true>(part, n) : moments_of<false>(part, n));
  });
  return out;
}

template <class F>
at::Tensor map(const at::Tensor& image, const std::vector<F>& functors, const at::Tensor& into) {
  const at::Tensor x = float_image(image);
  at::Tensor out = room(into, x.sizes(), x.options());
  for_each_part(x, functors.size() > 1, [&](std::int64_t c, std::int64_t first, std::int64_t n) {
    const F f = functors.at(c);
    const float* from = x.const_data_ptr<float>() + first;
    float* to = out.mutable_data_ptr<float>() + first;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
  });
  return out;
}
template at::Tensor map(const at::Tensor&, const std::vector<Linear>&, const at::Tensor&);
template at::Tensor map(const at::Tensor&, const std::vector<Normalize>&, const at::Tensor&);
template at::Tensor map(const at::Tensor&, const std::vector<Rescale>&, const at::Tensor&);
template at::Tensor map(const at::Tensor&, const std::vector<Contrast>&, const at::Tensor&);
template at::Tensor map(const at::Tensor&, const std::vector<SoftClip>&, const at::Tensor&);
template at::Tensor map(const at::Tensor&, const std::vector<Shift>&, const at::Tensor&);

at::Tensor add_noise(const at::Tensor& image, float mean, float std, const Random::Stream& stream,
                     const at::Tensor& into) {
  const at::Tensor x = float_image(image);
  at::Tensor out = room(into, x.sizes(), x.options());
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  const std::int64_t n = x.numel();
  float drawn[chunk];
  for (std::int64_t start = 0; start < n; start += chunk) {
    draw_normals(stream, start, drawn);
    const std::int64_t here = std::min(chunk, n - start);
    for (std::int64_t i = 0; i < here; ++i)
      to[start + i] = noisy(from[start + i], mean, std, drawn[i]);
  }
  return out;
}

}  // namespace sluice::kernels
