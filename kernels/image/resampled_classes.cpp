#include "kernels/image/resampled_classes.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/as_half.h"
#include "kernels/base/team.h"

namespace sluice {
namespace {

struct Classes {
  const float* logits;
  std::int64_t channels, plane, volume, row;  // of the logits: elements
  const AxisPlaces* x;
  const AxisPlaces* y;
  const AxisPlaces* z;
  const std::vector<std::int64_t>& regions;
  bool half;

  // Row (i, j) of the result. `line` holds a row of logits, `best` and `winner` one of results.
  template <class T>
  void row_to(T* out, std::int64_t i, std::int64_t j, float* line, float* best) const {
    const auto n = static_cast<std::int64_t>(z->weight.size());
    std::fill_n(best, n, regions.empty() ? -std::numeric_limits<float>::infinity() : 0.0f);
    std::fill_n(out, n, T{0});
    const float u = x->weight[i], v = y->weight[j];
    const std::int64_t at[4] = {
        x->lower[i] * plane + y->lower[j] * row, x->lower[i] * plane + y->upper[j] * row,
        x->upper[i] * plane + y->lower[j] * row, x->upper[i] * plane + y->upper[j] * row};
    const float weight[4] = {(1 - u) * (1 - v), (1 - u) * v, u * (1 - v), u * v};
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* from = logits + c * volume;
      for (std::int64_t k = 0; k < row; ++k) line[k] = weight[0] * from[at[0] + k];
      for (int corner = 1; corner < 4; ++corner)
        if (weight[corner] != 0)
          for (std::int64_t k = 0; k < row; ++k) line[k] += weight[corner] * from[at[corner] + k];
      const T value = static_cast<T>(regions.empty() ? c : regions[c]);
      for (std::int64_t k = 0; k < n; ++k) {
        const float w = z->weight[k];
        float logit = (1 - w) * line[z->lower[k]] + w * line[z->upper[k]];
        if (half) logit = kernels::as_half(logit);
        const bool wins = logit > best[k];
        out[k] = wins ? value : out[k];
        if (regions.empty()) best[k] = wins ? logit : best[k];
      }
    }
  }
};

}  // namespace

AxisPlaces AxisPlaces::stretched(std::int64_t from, std::int64_t to, bool linear) {
  AxisPlaces all;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double place = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                    static_cast<double>(from - 1));
    const auto lower = static_cast<std::int64_t>(linear ? place : std::floor(place + 0.5));
    all.lower.push_back(lower);
    all.upper.push_back(linear ? std::min(lower + 1, from - 1) : lower);
    all.weight.push_back(linear ? static_cast<float>(place - static_cast<double>(lower)) : 0.0f);
  }
  return all;
}

at::Tensor resampled_classes(const at::Tensor& logits, const AxisPlaces (&places)[3],
                             const std::vector<std::int64_t>& regions, bool half) {
  const at::Tensor from = logits.to(at::kFloat).contiguous();
  const std::int64_t shape[3] = {std::ssize(places[0].weight), std::ssize(places[1].weight),
                                 std::ssize(places[2].weight)};
  const std::int64_t most =
      regions.empty() ? from.size(0) - 1 : *std::max_element(regions.begin(), regions.end());
  const bool is_small = most < 256;
  at::Tensor out = at::empty({1, shape[0], shape[1], shape[2]}, is_small ? at::kByte : at::kInt);
  const Classes all{from.const_data_ptr<float>(),
                    from.size(0),
                    from.stride(1),
                    from.stride(0),
                    from.size(3),
                    &places[0],
                    &places[1],
                    &places[2],
                    regions,
                    half};
  const auto fill = [&](auto* to) {
    team_for(shape[0], [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> line(static_cast<std::size_t>(all.row)),
          best(static_cast<std::size_t>(shape[2]));
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t j = 0; j < shape[1]; ++j)
          all.row_to(to + (i * shape[1] + j) * shape[2], i, j, line.data(), best.data());
    });
  };
  if (is_small)
    fill(out.mutable_data_ptr<std::uint8_t>());
  else
    fill(out.mutable_data_ptr<std::int32_t>());
  return out;
}

}  // namespace sluice
