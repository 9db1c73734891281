#include "kernels/image/spline_resize.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/image/spatial.h"
#include "kernels/image/spline.h"
#include "kernels/image/stretched_axis.h"

namespace sluice {
namespace {

constexpr double anisotropy = 3;
constexpr std::int64_t lanes = 16;  // lines that are resized together
constexpr std::int64_t margin = 2;  // nodes that a cubic reads outside of the line

// ---- images -------------------------------------------------------------------------------------

// The four nodes of a cubic and their weights, of every place on a resized axis.
struct CubicPlaces {
  std::vector<std::int64_t> first;  // in the line with its margins
  std::vector<std::array<double, 4>> weights;

  CubicPlaces(std::int64_t from, std::int64_t to) {
    for (std::int64_t i = 0; i < to; ++i) {
      double t = 0;
      std::array<double, 4> w{};
      first.push_back(kernels::spline_low(3, stretched_place(i, from, to), t) + margin);
      kernels::spline_weights<0, 1, double>(3, &t, w.data(), nullptr, nullptr);
      weights.push_back(w);
    }
  }
};

// Samples to cubic coefficients, in place, of `n` rows of lanes that go on constant at both ends.
// Unser, IEEE Signal Processing Magazine 16 (1999), box 2: one pole, z = sqrt(3) - 2.
void to_coefficients(double* rows, std::int64_t n) {
  const double z = std::sqrt(3.0) - 2, gain = 6;
  for (std::int64_t l = 0; l < lanes; ++l) rows[l] *= gain / (1 - z);
  for (std::int64_t i = 1; i < n; ++i)
    for (std::int64_t l = 0; l < lanes; ++l)
      rows[i * lanes + l] = gain * rows[i * lanes + l] + z * rows[(i - 1) * lanes + l];
  // What would follow: the last sample for ever. The margin's last two rows are equal samples, so
  // the sample is the difference that the recursion made.
  double* last = rows + (n - 1) * lanes;
  for (std::int64_t l = 0; l < lanes; ++l) {
    const double steady = (last[l] - z * last[l - lanes]) / (1 - z);
    last[l] = -z / (1 - z) * steady - z / (1 - z * z) * (last[l] - steady);
  }
  for (std::int64_t i = n - 1; i-- > 0;)
    for (std::int64_t l = 0; l < lanes; ++l)
      rows[i * lanes + l] = z * (rows[(i + 1) * lanes + l] - rows[i * lanes + l]);
}

// [outer, from, inner] -> [outer, to, inner].
void resize_lines(const float* source, float* target, std::int64_t outer, std::int64_t from,
                  std::int64_t to, std::int64_t inner) {
  const CubicPlaces places(from, to);
  std::vector<double> rows(static_cast<std::size_t>((from + 2 * margin) * lanes));
  const std::int64_t lines = outer * inner;
  for (std::int64_t begin = 0; begin < lines; begin += lanes) {
    const std::int64_t count = std::min(lanes, lines - begin);
    std::array<std::int64_t, lanes> in{}, out{};
    for (std::int64_t l = 0; l < lanes; ++l) {
      const std::int64_t line = begin + std::min(l, count - 1);
      in[l] = line / inner * from * inner + line % inner;
      out[l] = line / inner * to * inner + line % inner;
    }
    for (std::int64_t i = 0; i < from + 2 * margin; ++i) {
      const std::int64_t at = std::clamp<std::int64_t>(i - margin, 0, from - 1) * inner;
      for (std::int64_t l = 0; l < lanes; ++l) rows[i * lanes + l] = source[in[l] + at];
    }
    to_coefficients(rows.data(), from + 2 * margin);
    for (std::int64_t i = 0; i < to; ++i) {
      const auto& w = places.weights[static_cast<std::size_t>(i)];
      const double* r = rows.data() + places.first[static_cast<std::size_t>(i)] * lanes;
      std::array<double, lanes> sum;
      for (std::int64_t l = 0; l < lanes; ++l)
        sum[l] =
            w[0] * r[l] + w[1] * r[l + lanes] + w[2] * r[l + 2 * lanes] + w[3] * r[l + 3 * lanes];
      for (std::int64_t l = 0; l < count; ++l)
        target[out[l] + i * inner] = static_cast<float>(sum[l]);
    }
  }
}

at::Tensor resize_axis(const at::Tensor& volume, int axis, std::int64_t to) {
  auto sizes = volume.sizes().vec();
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t d = 0; d < volume.dim(); ++d)
    (d <= axis ? outer : inner) *= d == axis + 1 ? 1 : sizes[static_cast<std::size_t>(d)];
  const std::int64_t from = std::exchange(sizes[static_cast<std::size_t>(axis) + 1], to);
  at::Tensor out = at::empty(sizes, volume.options());
  resize_lines(volume.const_data_ptr<float>(), out.mutable_data_ptr<float>(), outer, from, to,
               inner);
  return out;
}

// Whether a resize has anything to do, slices apart.
bool changes(const at::Tensor& volume, const Shape3& shape, std::optional<int> slices) {
  for (int d = 0; d < 3; ++d)
    if (d != slices && volume.size(d + 1) != shape[static_cast<std::size_t>(d)]) return true;
  return false;
}

}  // namespace

std::optional<int> slice_axis(const Vec3& old_spacing, const Vec3& new_spacing, int axes) {
  for (const Vec3* spacing : {&old_spacing, &new_spacing}) {
    const auto end = spacing->begin() + axes;
    const auto most = std::max_element(spacing->begin(), end);
    if (!(*most / *std::min_element(spacing->begin(), end) > anisotropy)) continue;
    if (std::count(spacing->begin(), end, *most) > 1) return std::nullopt;
    return static_cast<int>(most - spacing->begin());
  }
  return std::nullopt;
}

at::Tensor spline_resize(const at::Tensor& volume, const Shape3& shape, std::optional<int> slices) {
  at::Tensor now = volume.to(at::kFloat).contiguous();
  if (changes(now, shape, slices)) {
    std::vector<std::int64_t> all{1, 2, 3};
    if (slices) all.erase(all.begin() + *slices);
    const at::Tensor low = now.amin(all, true), high = now.amax(all, true);
    for (int d = 0; d < 3; ++d)
      if (d != slices && now.size(d + 1) != shape[static_cast<std::size_t>(d)])
        now = resize_axis(now, d, shape[static_cast<std::size_t>(d)]);
    now = at::clamp(now, low, high);
  }
  return slices ? nearest_slices(now, *slices, shape[static_cast<std::size_t>(*slices)]) : now;
}

}  // namespace sluice
