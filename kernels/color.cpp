#include "kernels/color.h"

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "kernels/float_image.h"
#include "kernels/into.h"

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

  void gray(float* out) const {
    if (channels == 1) return void(std::copy(v[0], v[0] + n, out));
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = stored(0.2989f * v[0][i] + 0.587f * v[1][i] + 0.114f * v[2][i]);
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
      for (std::int64_t i = 0; i < n; ++i) v[c][i] = held(ratio * v[c][i] + others * of[i]);
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

// To hue, saturation, value, a turn of the hue, and back; r, g, b in 0..1.
void turn(float& r, float& g, float& b, float by) {
  const float most = std::max({r, g, b}), least = std::min({r, g, b}), chroma = most - least;
  const float divisor = chroma == 0 ? 1 : chroma, s = chroma / (chroma == 0 ? 1 : most);
  const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  float h = most == r ? bc - gc : most == g ? 2 + rc - bc : 4 + gc - rc;
  h = h / 6 + 1;
  h = h - std::floor(h) + by;
  h -= std::floor(h);
  const float sector = std::floor(h * 6), f = h * 6 - sector, v = most;
  const auto unit = [](float x) { return std::clamp(x, 0.0f, 1.0f); };
  const float p = unit(v * (1 - s)), q = unit(v * (1 - s * f)), t = unit(v * (1 - s * (1 - f)));
  const float red[]{v, q, p, p, t, v}, green[]{t, v, v, q, p, p}, blue[]{p, p, t, v, v, q};
  const int i = static_cast<int>(sector) % 6;
  r = red[i], g = green[i], b = blue[i];
}

template <bool whole>
void Block<whole>::turn_hue(float by) {
  for (std::int64_t i = 0; i < n; ++i) {
    float rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = v[c][i] / bound;
    turn(rgb[0], rgb[1], rgb[2], by);
    // uint8: all of 0..1 has the same share of the 256 values.
    for (int c = 0; c < 3; ++c) v[c][i] = whole ? std::trunc(rgb[c] * (256 - 1e-3f)) : rgb[c];
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
