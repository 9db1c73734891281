#include "kernels/image/histogram.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "kernels/image/float_image.h"
#include "kernels/image/intensity.h"

namespace sluice::kernels {
namespace {

// A number that orders as the float does.
std::uint32_t key_of(float v) {
  const std::uint32_t bits = bits_of(v + 0.0f);  // -0 is 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Voxels by rank, without sorting: counts by the upper half of their keys say in which bin a rank
// lies, and only that bin's voxels are looked at more closely.
class Ranks {
 public:
  Ranks(const float* x, std::int64_t n) : x_(x), n_(n), counts_(bins) {
    for (std::int64_t i = 0; i < n; ++i) ++counts_[key_of(x[i]) >> shift];
  }
  float at(std::int64_t rank) const {
    std::uint32_t bin = 0;
    for (; rank >= counts_[bin]; ++bin) rank -= counts_[bin];
    std::vector<float> found;
    found.reserve(static_cast<std::size_t>(counts_[bin]));
    for (std::int64_t i = 0; i < n_; ++i)
      if (key_of(x_[i]) >> shift == bin) found.push_back(x_[i]);
    std::nth_element(found.begin(), found.begin() + rank, found.end());
    return found[static_cast<std::size_t>(rank)];
  }

 private:
  static constexpr std::uint32_t shift = 16, bins = 1u << 16;
  const float* x_;
  std::int64_t n_;
  std::vector<std::int64_t> counts_;
};

double percentile(const Ranks& ranks, std::int64_t n, double percent) {
  const double at = percent / 100 * static_cast<double>(n - 1);
  const auto below = static_cast<std::int64_t>(at);
  const double share = at - std::floor(at), low = ranks.at(below);
  return share == 0 ? low : low + (ranks.at(below + 1) - low) * share;
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
    // Ranks need an order, and NaN has none.
    const bool has_nan = std::any_of(first, first + n, [](float v) { return v != v; });
    const Ranks ranks(first, has_nan ? 0 : n);
    out.emplace_back();
    for (double percent : percents)
      out.back().push_back(has_nan ? std::numeric_limits<double>::quiet_NaN()
                                   : percentile(ranks, n, percent));
  }
  return out;
}

at::Tensor shift_histogram(const at::Tensor& image, const std::vector<double>& to) {
  const at::Tensor x = float_image(image);
  const Range range = ranges(x, false).at(0);
  if (range.low == range.high) return x;
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
    int piece = static_cast<int>(at > 0 ? at : 0);  // of a NaN the first, which is NaN
    piece = piece < pieces ? piece : pieces - 1;
    y[i] = gain[piece] * in[i] + offset[piece];
  }
  return out;
}

}  // namespace sluice::kernels
