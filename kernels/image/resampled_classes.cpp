#include "kernels/image/resampled_classes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/base/as_half.h"
#include "kernels/base/team.h"

namespace sluice {
namespace {

struct Logits {
  at::Tensor tensor;  // float32, contiguous
  const AxisPlaces* x;
  const AxisPlaces* y;
  const AxisPlaces* z;
  bool half;

  Logits(const at::Tensor& logits, const AxisPlaces (&places)[3], bool is_half)
      : tensor(logits.to(at::kFloat).contiguous()),
        x(&places[0]),
        y(&places[1]),
        z(&places[2]),
        half(is_half) {}

  std::int64_t channels() const { return tensor.size(0); }
  std::int64_t row() const { return tensor.size(3); }
  std::int64_t extent(int axis) const {
    return std::ssize((axis == 0 ? x : axis == 1 ? y : z)->weight);
  }

  // take(c, k, logit) of row (i, j) of the finer grid, one channel after the other. `line` holds a
  // row of logits.
  template <class Take>
  void each(std::int64_t i, std::int64_t j, float* line, Take&& take) const {
    const float* all = tensor.const_data_ptr<float>();
    const std::int64_t n = extent(2), row = this->row(), plane = tensor.stride(1);
    const float u = x->weight[i], v = y->weight[j];
    const std::int64_t at[4] = {
        x->lower[i] * plane + y->lower[j] * row, x->lower[i] * plane + y->upper[j] * row,
        x->upper[i] * plane + y->lower[j] * row, x->upper[i] * plane + y->upper[j] * row};
    const float weight[4] = {(1 - u) * (1 - v), (1 - u) * v, u * (1 - v), u * v};
    for (std::int64_t c = 0; c < channels(); ++c) {
      const float* from = all + c * tensor.stride(0);
      for (std::int64_t k = 0; k < row; ++k) line[k] = weight[0] * from[at[0] + k];
      for (int corner = 1; corner < 4; ++corner)
        if (weight[corner] != 0)
          for (std::int64_t k = 0; k < row; ++k) line[k] += weight[corner] * from[at[corner] + k];
      for (std::int64_t k = 0; k < n; ++k) {
        const float w = z->weight[k];
        const float logit = (1 - w) * line[z->lower[k]] + w * line[z->upper[k]];
        take(c, k, half ? kernels::as_half(logit) : logit);
      }
    }
  }

  // Rows (i, j) in parts of a team, each with its line.
  template <class Row>
  void rows(Row&& of_row) const {
    team_for(extent(0), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> line(static_cast<std::size_t>(row())),
          best(static_cast<std::size_t>(extent(2)));
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t j = 0; j < extent(1); ++j) of_row(i, j, line.data(), best.data());
    });
  }
};

}  // namespace

template <class PlaceOf>
static AxisPlaces places(std::int64_t from, std::int64_t to, bool linear, PlaceOf&& place_of) {
  AxisPlaces all;
  for (std::int64_t i = 0; i < to; ++i) {
    const double place =
        std::clamp(place_of(static_cast<double>(i)), 0.0, static_cast<double>(from - 1));
    const auto lower = static_cast<std::int64_t>(linear ? place : std::floor(place + 0.5));
    all.lower.push_back(lower);
    all.upper.push_back(linear ? std::min(lower + 1, from - 1) : lower);
    all.weight.push_back(linear ? static_cast<float>(place - static_cast<double>(lower)) : 0.0f);
  }
  return all;
}

AxisPlaces AxisPlaces::stretched(std::int64_t from, std::int64_t to, bool linear) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  return places(from, to, linear, [&](double i) { return (i + 0.5) * scale - 0.5; });
}
AxisPlaces AxisPlaces::along(std::int64_t from, std::int64_t to, double scale, double offset,
                             bool linear) {
  return places(from, to, linear, [&](double i) { return scale * i + offset; });
}

at::Tensor resampled_classes(const at::Tensor& logits, const AxisPlaces (&places)[3],
                             const std::vector<std::int64_t>& regions, bool half) {
  const Logits all(logits, places, half);
  const std::int64_t nx = all.extent(0), ny = all.extent(1), nz = all.extent(2);
  const std::int64_t most =
      regions.empty() ? all.channels() - 1 : *std::max_element(regions.begin(), regions.end());
  const bool is_small = most < 256;
  at::Tensor out = at::empty({1, nx, ny, nz}, is_small ? at::kByte : at::kInt);
  const float least = regions.empty() ? -std::numeric_limits<float>::infinity() : 0.0f;
  const auto fill = [&](auto* labels) {
    using T = std::remove_pointer_t<decltype(labels)>;
    all.rows([&](std::int64_t i, std::int64_t j, float* line, float* best) {
      T* to = labels + (i * ny + j) * nz;
      std::fill_n(best, nz, least);
      std::fill_n(to, nz, T{0});
      all.each(i, j, line, [&](std::int64_t c, std::int64_t k, float logit) {
        const bool wins = logit > best[k];
        to[k] = wins ? static_cast<T>(regions.empty() ? c : regions[c]) : to[k];
        if (regions.empty()) best[k] = wins ? logit : best[k];
      });
    });
  };
  if (is_small)
    fill(out.mutable_data_ptr<std::uint8_t>());
  else
    fill(out.mutable_data_ptr<std::int32_t>());
  return out;
}

at::Tensor resampled_probabilities(const at::Tensor& logits, const AxisPlaces (&places)[3],
                                   bool sigmoid, bool half) {
  const Logits all(logits, places, half);
  const std::int64_t nx = all.extent(0), ny = all.extent(1), nz = all.extent(2);
  at::Tensor out = at::empty({all.channels(), nx, ny, nz}, at::kFloat);
  float* numbers = out.mutable_data_ptr<float>();
  all.rows([&](std::int64_t i, std::int64_t j, float* line, float* /*best*/) {
    float* to = numbers + (i * ny + j) * nz;
    all.each(i, j, line, [&](std::int64_t c, std::int64_t k, float logit) {
      to[c * nx * ny * nz + k] = logit;
    });
  });
  return sigmoid ? out.sigmoid_() : at::softmax(out, 0);
}

}  // namespace sluice
