#include "kernels/augment/color.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "kernels/augment/color_math.h"
#include "kernels/base/into.h"
#include "kernels/image/float_image.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t block = 512;  // pixels: their three channels stay in the first cache

// Pixels as floats; of uint8 images (`whole`) these hold whole numbers.
template <bool whole>
struct Block {
  static constexpr float bound = whole ? 255 : 1;
  float v[3][block];
  std::int64_t n = 0;
  int channels = 1;

  // As torch casts float to uint8.
  static float stored(float x) { return whole ? std::trunc(x) : x; }
  static float held(float x) {
    x = x < 0.0f ? 0.0f : x;
    return stored(x > bound ? bound : x);
  }
  // From 0..1; of uint8 each of the 256 values has the same share of that.
  static float spread(float x) { return whole ? std::trunc(x * (256 - 1e-3f)) : x; }

  void gray(float* out) const {
    if (channels == 1) return void(std::copy(v[0], v[0] + n, out));
    for (std::int64_t i = 0; i < n; ++i) out[i] = stored(gray_of({v[0][i], v[1][i], v[2][i]}));
  }
  double sum_of_gray() const {
    float of[block];
    gray(of);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += of[i];
    return sum;
  }

  // ratio * image + (1 - ratio) * other, one `other` for all channels.
  void blend(double by, float other) {
    const float ratio = static_cast<float>(by), rest = static_cast<float>(1 - by) * other;
    for (int c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < n; ++i) v[c][i] = held(ratio * v[c][i] + rest);
  }
  void blend_gray(double by) {
    const float ratio = static_cast<float>(by), others = static_cast<float>(1 - by);
    float of[block];
    gray(of);
    for (int c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < n; ++i) v[c][i] = held(blended(ratio, v[c][i], others, of[i]));
  }
  void turn_hue(float by);

  void change(const JitterStep& step, float mean) {
    switch (step.what) {
      case Jitter::brightness:
        return blend(step.by, 0);
      case Jitter::contrast:
        return blend(step.by, mean);
      case Jitter::saturation:
        return blend_gray(step.by);
      case Jitter::hue:
        return turn_hue(static_cast<float>(step.by));
    }
  }
};

template <bool whole>
void Block<whole>::turn_hue(float by) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const Rgb c = turned({v[0][i] / bound, v[1][i] / bound, v[2][i] / bound}, by);
    v[0][i] = spread(c.r);
    v[1][i] = spread(c.g);
    v[2][i] = spread(c.b);
  }
}

// One pass: steps begin..end of each block, the first of which may be a contrast about `mean`. The
// mean gray of the result, where the next pass needs it; without steps that is all that is made.
template <class T>
float pass(const T* in, T* out, std::int64_t n, int channels, const JitterStep* begin,
           const JitterStep* end, float mean, bool measure) {
  Block<std::is_same_v<T, std::uint8_t>> b;
  b.channels = channels;
  double sum = 0;
  for (std::int64_t from = 0; from < n; from += block) {
    b.n = std::min(block, n - from);
    for (int c = 0; c < channels; ++c) std::copy_n(in + c * n + from, b.n, b.v[c]);
    for (const JitterStep* step = begin; step != end; ++step) b.change(*step, mean);
    if (measure) sum += b.sum_of_gray();
    for (int c = 0; c < channels && begin != end; ++c)
      for (std::int64_t i = 0; i < b.n; ++i) out[c * n + from + i] = static_cast<T>(b.v[c][i]);
  }
  return static_cast<float>(sum / static_cast<double>(n));
}

template <class T>
void jitter(const at::Tensor& image, const std::vector<JitterStep>& steps, const at::Tensor& out) {
  const T* in = image.const_data_ptr<T>();
  T* const to = out.mutable_data_ptr<T>();
  const auto channels = static_cast<int>(image.size(0));
  const std::int64_t n = image.numel() / channels;
  const JitterStep *step = steps.data(), *const end = step + steps.size();
  for (float mean = 0; step != end;) {
    const bool contrasts = step->what == Jitter::contrast;
    const JitterStep* const next =
        std::find_if(step + contrasts, end, [](auto& s) { return s.what == Jitter::contrast; });
    if (contrasts && step == steps.data()) mean = pass(in, to, n, channels, step, step, 0, true);
    mean = pass(in, to, n, channels, step, next, mean, next != end);
    step = next;
    in = to;
  }
}

}  // namespace

at::Tensor jitter(const at::Tensor& image, const std::vector<JitterStep>& given,
                  const at::Tensor& into) {
  if (image.dim() < 2 || (image.size(0) != 1 && image.size(0) != 3))
    throw DataError("colours need an image of one or three channels");
  std::vector<JitterStep> steps;
  for (const JitterStep& s : given)
    if (image.size(0) == 3 || s.what == Jitter::brightness || s.what == Jitter::contrast)
      steps.push_back(s);
  if (steps.empty()) return image;
  const bool whole = image.scalar_type() == at::kByte && image.device().is_cpu();
  const at::Tensor x = whole ? image.contiguous() : float_image(image);
  const at::Tensor out = room(into, x.sizes(), x.options());
  if (whole)
    jitter<std::uint8_t>(x, steps, out);
  else
    jitter<float>(x, steps, out);
  return out.to(image.scalar_type());
}

}  // namespace sluice::kernels
