#include "kernels/onnx/quantize.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/net/conv_step.h"

namespace sluice::onnx {

std::string convolved_with(const Net& net, const Step& step) {
  const auto* conv = dynamic_cast<const ConvStep*>(&step);
  return conv ? net.parameters[conv->weight].name : "";
}

void Range::widen(float magnitude) {
  while (magnitude >= width_) {
    for (int i = 0; i < bins / 2; ++i) counts_[i] = counts_[2 * i] + counts_[2 * i + 1];
    std::fill(counts_.begin() + bins / 2, counts_.end(), 0);
    width_ *= 2;
  }
}

void Range::add(const at::Tensor& values) {
  const at::Tensor x = values.detach().to(at::kCPU, at::kFloat).contiguous();
  if (x.numel() == 0) return;
  any_ = true;
  const auto [low, high] = at::aminmax(x);
  if (!std::isfinite(low.item<float>()) || !std::isfinite(high.item<float>())) {
    nan_ = true;
    return;
  }
  low_ = std::min(low_, low.item<float>());
  high_ = std::max(high_, high.item<float>());
  widen(std::max(-low.item<float>(), high.item<float>()));
  const double per_bin = bins / width_;  // a power of two: the product is exact
  const float* const all = x.const_data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i)
    ++counts_[static_cast<std::size_t>(std::fabs(all[i]) * per_bin)];
}

double Range::percentile() const {
  std::int64_t all = 0, seen = 0;
  for (const auto n : counts_) all += n;
  for (int i = 0; i < bins; ++i) {
    seen += counts_[i];
    if (static_cast<double>(seen) >= 0.9999 * static_cast<double>(all))
      return (i + 1) * width_ / bins;
  }
  return width_;
}

// Over bounds from 1/16 of the largest number on.
double Range::least_error() const {
  const double most = std::max(-low_, high_);
  double best = most, least = std::numeric_limits<double>::infinity();
  for (int k = 8; k <= 128; ++k) {
    const double bound = most * k / 128, step = bound / 127;
    double error = 0;
    for (int i = 0; i < bins; ++i) {
      if (counts_[i] == 0) continue;
      const double x = (i + 0.5) * width_ / bins, q = std::min(127.0, std::round(x / step));
      error += static_cast<double>(counts_[i]) * (x - q * step) * (x - q * step);
    }
    if (error < least) {
      least = error;
      best = bound;
    }
  }
  return best;
}

double Range::bound(Method method) const {
  const double most = std::max(-low_, high_);
  if (method == Method::percentile) return std::min(most, percentile());
  return method == Method::mse ? least_error() : most;
}

Scale scale_of(const Range& range, Range::Method method, bool symmetric) {
  const double bound = range.bound(method);
  if (symmetric) return {bound / 127, 0};
  const double low = std::max<double>(range.low(), -bound),
               high = std::min<double>(range.high(), bound);
  Scale s{(high - low) / 255, 0};
  s.zero_point = std::clamp<std::int64_t>(std::llround(-low / s.scale), 0, 255);
  return s;
}

}  // namespace sluice::onnx
