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
    for (Counts* counts : {&above_, &below_}) {
      for (int i = 0; i < bins / 2; ++i) (*counts)[i] = (*counts)[2 * i] + (*counts)[2 * i + 1];
      std::fill(counts->begin() + bins / 2, counts->end(), 0);
    }
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
    ++(all[i] < 0 ? below_ : above_)[static_cast<std::size_t>(std::fabs(all[i]) * per_bin)];
}

double Range::percentile() const {
  std::int64_t all = 0, seen = 0;
  for (int i = 0; i < bins; ++i) all += above_[i] + below_[i];
  for (int i = 0; i < bins; ++i) {
    seen += above_[i] + below_[i];
    if (static_cast<double>(seen) >= 0.9999 * static_cast<double>(all))
      return (i + 1) * width_ / bins;
  }
  return width_;
}

double Range::squared_error(const Scale& s, bool symmetric) const {
  const double zero = static_cast<double>(s.zero_point), least = symmetric ? -127 : 0,
               most = symmetric ? 127 : 255;
  double error = 0;
  for (const int sign : {1, -1})
    for (int i = 0; i < bins; ++i) {
      const std::int64_t count = (sign > 0 ? above_ : below_)[i];
      if (count == 0) continue;
      const double x = sign * (i + 0.5) * width_ / bins;
      const double q = std::clamp(std::round(x / s.scale) + zero, least, most) - zero;
      error += static_cast<double>(count) * (x - q * s.scale) * (x - q * s.scale);
    }
  return error;
}

// Over bounds from 1/16 of the largest number on.
double Range::least_error(bool symmetric) const {
  const double most = std::max(-low_, high_);
  double best = most, least = std::numeric_limits<double>::infinity();
  for (int k = 8; k <= 128; ++k) {
    const double bound = most * k / 128, error = squared_error(scale(bound, symmetric), symmetric);
    if (error < least) {
      least = error;
      best = bound;
    }
  }
  return best;
}

double Range::bound(Method method, bool symmetric) const {
  const double most = std::max(-low_, high_);
  if (method == Method::percentile) return std::min(most, percentile());
  return method == Method::mse ? least_error(symmetric) : most;
}

Scale Range::scale(double bound, bool symmetric) const {
  if (symmetric) return {bound / 127, 0};
  const double low = std::max<double>(low_, -bound), high = std::min<double>(high_, bound);
  Scale s{(high - low) / 255, 0};
  s.zero_point = std::clamp<std::int64_t>(std::llround(-low / s.scale), 0, 255);
  return s;
}

Scale scale_of(const Range& range, Range::Method method, bool symmetric) {
  return range.scale(range.bound(method, symmetric), symmetric);
}

}  // namespace sluice::onnx
