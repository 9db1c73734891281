#include "kernels/color.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/error.h"
#include "kernels/float_image.h"

namespace sluice::kernels {
namespace {

// The loops work on floats; of uint8 images these hold whole numbers.
struct Pixels {
  const float* in;
  float* out;
  std::int64_t n;  // a channel
  std::int64_t channels;
  float bound;  // 1 or 255
  bool whole;

  // As torch casts float to uint8.
  float stored(float v) const { return whole ? std::trunc(v) : v; }
  float held(float v) const { return stored(std::clamp(v, 0.0f, bound)); }
  float gray(std::int64_t i) const {
    if (channels == 1) return in[i];
    return stored(0.2989f * in[i] + 0.587f * in[n + i] + 0.114f * in[2 * n + i]);
  }
};

// ratio * image + (1 - ratio) * other(i), one `other` for all channels.
template <class Other>
void blend(const Pixels& p, double by, Other&& other) {
  const float ratio = static_cast<float>(by), others = static_cast<float>(1 - by);
  for (std::int64_t i = 0; i < p.n; ++i) {
    const float rest = others * other(i);
    for (std::int64_t c = 0; c < p.channels; ++c)
      p.out[c * p.n + i] = p.held(ratio * p.in[c * p.n + i] + rest);
  }
}

float mean_gray(const Pixels& p) {
  double sum = 0;
  for (std::int64_t i = 0; i < p.n; ++i) sum += p.gray(i);
  return static_cast<float>(sum / static_cast<double>(p.n));
}

// To hue, saturation, value, a turn of the hue, and back; r, g, b in 0..1.
void turn(float& r, float& g, float& b, float by) {
  const float most = std::max({r, g, b}), least = std::min({r, g, b}), chroma = most - least;
  const float divisor = chroma == 0 ? 1 : chroma, s = chroma / (chroma == 0 ? 1 : most);
  const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  float h = most == r ? bc - gc : most == g ? 2 + rc - bc : 4 + gc - rc;
  h = std::fmod(h / 6 + 1, 1.0f) + by;
  h -= std::floor(h);
  const float sector = std::floor(h * 6), f = h * 6 - sector, v = most;
  const auto unit = [](float x) { return std::clamp(x, 0.0f, 1.0f); };
  const float p = unit(v * (1 - s)), q = unit(v * (1 - s * f)), t = unit(v * (1 - s * (1 - f)));
  const float red[]{v, q, p, p, t, v}, green[]{t, v, v, q, p, p}, blue[]{p, p, t, v, v, q};
  const int i = static_cast<int>(sector) % 6;
  r = red[i], g = green[i], b = blue[i];
}

void turn_all(const Pixels& p, float by) {
  for (std::int64_t i = 0; i < p.n; ++i) {
    float rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = p.in[c * p.n + i] / p.bound;
    turn(rgb[0], rgb[1], rgb[2], by);
    // uint8: all of 0..1 has the same share of the 256 values.
    for (int c = 0; c < 3; ++c)
      p.out[c * p.n + i] = p.whole ? std::trunc(rgb[c] * (256 - 1e-3f)) : rgb[c];
  }
}

}  // namespace

at::Tensor jitter(const at::Tensor& image, Jitter what, double by) {
  if (image.dim() < 2 || (image.size(0) != 1 && image.size(0) != 3))
    throw DataError("colours need an image of one or three channels");
  if (image.size(0) == 1 && (what == Jitter::saturation || what == Jitter::hue)) return image;
  const at::Tensor x = float_image(image);
  at::Tensor out = at::empty(x.sizes(), x.options());
  const bool whole = image.scalar_type() == at::kByte;
  const Pixels p{x.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
                 x.numel() / x.size(0),     x.size(0),
                 whole ? 255.0f : 1.0f,     whole};
  switch (what) {
    case Jitter::brightness:
      blend(p, by, [](std::int64_t) { return 0.0f; });
      break;
    case Jitter::contrast:
      blend(p, by, [mean = mean_gray(p)](std::int64_t) { return mean; });
      break;
    case Jitter::saturation:
      blend(p, by, [&](std::int64_t i) { return p.gray(i); });
      break;
    case Jitter::hue:
      turn_all(p, static_cast<float>(by));
      break;
  }
  return out.to(image.scalar_type());
}

}  // namespace sluice::kernels
