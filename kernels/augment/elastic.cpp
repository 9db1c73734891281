#include "kernels/augment/elastic.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "kernels/augment/augment_chain.h"

namespace sluice {
namespace {

double power(const std::vector<float>& taps) {
  double s = 0;
  for (float t : taps) s += double(t) * t;
  return s;
}

// One axis: `outer` blocks of `n` lines of `inner` floats; each weight is one sweep over all the
// lines it reaches, so the loop that counts runs along memory for every axis.
void smooth_axis(const float* in, float* out, std::int64_t outer, std::int64_t n,
                 std::int64_t inner, const std::vector<float>& taps) {
  const std::int64_t reach = static_cast<std::int64_t>(taps.size()) / 2, size = n * inner;
  for (std::int64_t o = 0; o < outer; ++o, in += size, out += size) {
    std::fill(out, out + size, 0.0f);
    for (std::int64_t t = -reach; t <= reach; ++t) {
      const float w = taps[static_cast<std::size_t>(t + reach)];
      const std::int64_t shift = t * inner, from = std::max<std::int64_t>(-shift, 0);
      const std::int64_t to = std::min(size - shift, size);
      for (std::int64_t i = from; i < to; ++i) out[i] += w * in[i + shift];
    }
  }
}

int step_of(double sigma) { return std::max(1, static_cast<int>(sigma / 2)); }

// What the noise is drawn with so that the smoothed field has the variance of a dense one: three
// axes each lose sum(taps^2) of it.
float gain_of(double sigma, double magnitude, const std::vector<float>& taps) {
  return static_cast<float>(std::pow(power(gaussian_taps(sigma)) / power(taps), 1.5) * magnitude);
}

}  // namespace

std::vector<float> gaussian_taps(double sigma) {
  const int reach = static_cast<int>(std::max(3 * sigma, 0.5) + 0.5);
  const double t = std::sqrt(0.5) / sigma;
  std::vector<float> taps;
  for (int i = -reach; i <= reach; ++i)
    taps.push_back(static_cast<float>(0.5 * (std::erf(t * (i + 0.5)) - std::erf(t * (i - 0.5)))));
  return taps;
}

at::Tensor smooth(const at::Tensor& field, const std::vector<float>& taps) {
  const at::Tensor source = field.contiguous();
  at::Tensor a = at::empty(source.sizes(), source.options()), b = at::empty_like(a);
  const std::int64_t x = source.size(1), y = source.size(2), z = source.size(3);
  const std::int64_t c = source.size(0);
  float *pa = a.mutable_data_ptr<float>(), *pb = b.mutable_data_ptr<float>();
  smooth_axis(source.const_data_ptr<float>(), pa, c, x, y * z, taps);
  smooth_axis(pa, pb, c * x, y, z, taps);
  smooth_axis(pb, pa, c * x * y, z, 1, taps);
  return a;
}

Shape3 displacement_nodes(const Shape3& shape, double sigma) {
  const int step = step_of(sigma);
  Shape3 n;
  for (int d = 0; d < 3; ++d) n[d] = (shape[d] - 1 + step - 1) / step + 1;
  return n;
}

Displacement random_displacement(const Shape3& shape, double sigma, double magnitude,
                                 std::uint64_t key, std::uint64_t counter_high) {
  const int step = step_of(sigma);
  const Shape3 n = displacement_nodes(shape, sigma);
  at::Tensor noise = at::empty({3, n[0], n[1], n[2]}, at::kFloat);
  const std::vector<float> taps = gaussian_taps(sigma / step);
  const float gain = gain_of(sigma, magnitude, taps);
  float* p = noise.mutable_data_ptr<float>();
  const std::int64_t count = noise.numel();
  for (std::int64_t i = 0; i < count; i += 4) {
    const Block4 words = philox(static_cast<std::uint64_t>(i / 4), counter_high, key);
    for (std::int64_t k = 0; k < std::min<std::int64_t>(4, count - i); ++k)
      p[i + k] = gain * (2 * unit_float(words.v[k]) - 1);
  }
  return {smooth(noise, taps), step};
}

DisplacementJob displacement_job(const Shape3& shape, double sigma, double magnitude,
                                 std::uint64_t key, std::uint64_t counter_high, const float* zero,
                                 float* nodes) {
  const int step = step_of(sigma);
  const Shape3 n = displacement_nodes(shape, sigma);
  const std::vector<float> taps = gaussian_taps(sigma / step);
  kernels::AugmentView view = kernels::view_of(zero, kernels::VoxelType::f32, 3, n);
  view.channel_stride = 0;  // the same zero everywhere
  for (std::int64_t& stride : view.stride) stride = 0;
  kernels::AugmentChain chain(view, 3);
  kernels::AugmentOp noise{kernels::AugmentKind::uniform, -1, {gain_of(sigma, magnitude, taps)}};
  noise.key = key;
  noise.counter = counter_high;
  chain.add(noise);
  if (!chain.blur({taps, taps, taps}))  // sigma / step is below 4, so the taps fit
    throw DataError("a displacement with sigma " + std::to_string(sigma));
  return {chain.job(kernels::output_of(nodes, kernels::VoxelType::f32, 3, n)), n, step};
}

}  // namespace sluice
