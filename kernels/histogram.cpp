#include "kernels/histogram.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"
#include "kernels/float_image.h"
#include "kernels/intensity.h"

namespace sluice::kernels {
namespace {

// Reorders `values`.
double percentile(std::vector<float>& values, double percent) {
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), below, values.end());
  const double share = at - std::floor(at);
  if (share == 0) return *below;
  const double low = *below, high = *std::min_element(below + 1, values.end());
  return low + (high - low) * share;
}

}  // namespace

std::vector<std::vector<double>> percentiles(const at::Tensor& image,
                                             const std::vector<double>& percents,
                                             bool channel_wise) {
  const at::Tensor x = float_image(image);
  const std::int64_t parts = channel_wise ? x.size(0) : 1;
  if (x.numel() == 0) throw DataError("an empty image has no percentiles");
  const std::int64_t n = x.numel() / parts;
  std::vector<std::vector<double>> out;
  for (std::int64_t i = 0; i < parts; ++i) {
    const float* first = x.const_data_ptr<float>() + i * n;
    std::vector<float> values(first, first + n);
    // Sorting needs an order, and NaN has none.
    const bool has_nan = std::any_of(first, first + n, [](float v) { return v != v; });
    out.emplace_back();
    for (double percent : percents)
      out.back().push_back(has_nan ? std::numeric_limits<double>::quiet_NaN()
                                   : percentile(values, percent));
  }
  return out;
}

at::Tensor shift_histogram(const at::Tensor& image, const std::vector<double>& to) {
  const at::Tensor x = float_image(image);
  const Range range = ranges(x, false).at(0);
  if (!(range.low < range.high)) return x;
  const auto pieces = static_cast<int>(to.size()) - 1;
  const double span = double(range.high) - range.low, step = span / pieces;
  // Each piece as gain * x + offset.
  std::vector<float> gain, offset;
  for (int i = 0; i < pieces; ++i) {
    const double from = range.low + step * i, slope = (to[i + 1] - to[i]) * span / step;
    gain.push_back(static_cast<float>(slope));
    offset.push_back(static_cast<float>(range.low + to[i] * span - slope * from));
  }
  at::Tensor out = at::empty(x.sizes(), x.options());
  const float* in = x.const_data_ptr<float>();
  float* y = out.mutable_data_ptr<float>();
  const float low = range.low, per_piece = static_cast<float>(1 / step);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float at = (in[i] - low) * per_piece;
    int piece = static_cast<int>(at > 0 ? at : 0);  // a NaN goes through the first
    piece = piece < pieces ? piece : pieces - 1;
    y[i] = gain[piece] * in[i] + offset[piece];
  }
  return out;
}

}  // namespace sluice::kernels
