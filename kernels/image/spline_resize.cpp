#include "kernels/image/spline_resize.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/image/spatial.h"
#include "kernels/image/spline.h"

namespace sluice {
namespace {

constexpr double anisotropy = 3;
constexpr std::int64_t lanes = 16;  // lines that are resized together
constexpr std::int64_t margin = 2;  // nodes that a cubic reads outside of the line

double place(std::int64_t i, std::int64_t from, std::int64_t to) {
  return (static_cast<double>(i) + 0.5) * (static_cast<double>(from) / static_cast<double>(to)) -
         0.5;
}

std::int64_t nearest(double x, std::int64_t n) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(x + 0.5)), 0, n - 1);
}

// ---- images -------------------------------------------------------------------------------------

// The four nodes of a cubic and their weights, of every place on a resized axis.
struct CubicPlaces {
  std::vector<std::int64_t> first;  // in the line with its margins
  std::vector<std::array<double, 4>> weights;

  CubicPlaces(std::int64_t from, std::int64_t to) {
    for (std::int64_t i = 0; i < to; ++i) {
      double t = 0;
      std::array<double, 4> w{};
      first.push_back(kernels::spline_low(3, place(i, from, to), t) + margin);
      kernels::spline_weights<0, double>(3, t, w.data(), nullptr, nullptr);
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

// Slices of the nearest places.
at::Tensor nearest_slices(const at::Tensor& volume, int axis, std::int64_t to) {
  const std::int64_t from = volume.size(axis + 1);
  at::Tensor index = at::empty({to}, at::kLong);
  for (std::int64_t i = 0; i < to; ++i)
    index.mutable_data_ptr<std::int64_t>()[i] = nearest(place(i, from, to), from);
  return volume.index_select(axis + 1, index);
}

// Whether a resize has anything to do, slices apart.
bool changes(const at::Tensor& volume, const Shape3& shape, std::optional<int> slices) {
  for (int d = 0; d < 3; ++d)
    if (d != slices && volume.size(d + 1) != shape[static_cast<std::size_t>(d)]) return true;
  return false;
}

// ---- labels -------------------------------------------------------------------------------------

struct LinearPlaces {
  std::vector<std::int64_t> low, high, near;
  std::vector<double> share;  // of the upper one

  LinearPlaces(std::int64_t from, std::int64_t to) {
    for (std::int64_t i = 0; i < to; ++i) {
      const double x = place(i, from, to), floor = std::floor(x);
      low.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(floor), 0, from - 1));
      high.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) + 1, 0, from - 1));
      near.push_back(nearest(x, from));
      share.push_back(x - floor);
    }
  }
};

// Up to eight labels and what each comes to. Weights are added in the corners' order, as scipy
// adds them, so that what is a tie there is one here.
template <class T>
struct Votes {
  std::array<T, 8> label;
  std::array<double, 8> sum;
  int n = 0;

  void add(T value, double weight) {
    if (weight == 0) return;
    int k = 0;
    while (k < n && label[k] != value) ++k;
    if (k == n) label[n] = value, sum[n] = 0, ++n;
    sum[k] += weight;
  }
  T winner(T near) const {
    int best = 0;
    for (int k = 1; k < n; ++k)
      if (sum[k] > sum[best] || (sum[k] == sum[best] && label[k] < label[best])) best = k;
    for (int k = 0; k < n; ++k)
      if (label[k] == near && sum[k] == sum[best]) return near;
    return label[best];
  }
};

template <class T>
void resize_labels(const T* source, T* target, const Shape3& from, const Shape3& to) {
  const LinearPlaces x(from[0], to[0]), y(from[1], to[1]), z(from[2], to[2]);
  const auto at = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    return source[(i * from[1] + j) * from[2] + k];
  };
  for (std::int64_t i = 0; i < to[0]; ++i)
    for (std::int64_t j = 0; j < to[1]; ++j)
      for (std::int64_t k = 0; k < to[2]; ++k, ++target) {
        const T near = at(x.near[i], y.near[j], z.near[k]);
        Votes<T> votes;
        bool same = true;
        for (int c = 0; c < 8; ++c) {
          const T value = at(c & 4 ? x.high[i] : x.low[i], c & 2 ? y.high[j] : y.low[j],
                             c & 1 ? z.high[k] : z.low[k]);
          same = same && value == near;
          const double wx = c & 4 ? x.share[i] : 1 - x.share[i];
          const double wy = c & 2 ? y.share[j] : 1 - y.share[j];
          const double wz = c & 1 ? z.share[k] : 1 - z.share[k];
          votes.add(value, wx * wy * wz);
        }
        *target = same ? near : votes.winner(near);
      }
}

at::Tensor resize_labels(const at::Tensor& label, const Shape3& to) {
  const Shape3 from = shape_of(label);
  at::Tensor out = at::empty({label.size(0), to[0], to[1], to[2]}, label.options());
  AT_DISPATCH_ALL_TYPES_AND(at::kBool, label.scalar_type(), "label_resize", [&] {
    for (std::int64_t c = 0; c < label.size(0); ++c)
      resize_labels(label[c].const_data_ptr<scalar_t>(), out[c].mutable_data_ptr<scalar_t>(), from,
                    to);
  });
  return out;
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
  if (slices && now.size(*slices + 1) != shape[static_cast<std::size_t>(*slices)])
    now = nearest_slices(now, *slices, shape[static_cast<std::size_t>(*slices)]);
  return now;
}

at::Tensor label_resize(const at::Tensor& label, const Shape3& shape, std::optional<int> slices) {
  at::Tensor now = label.contiguous();
  Shape3 in_plane = shape;
  if (slices) in_plane[static_cast<std::size_t>(*slices)] = now.size(*slices + 1);
  if (changes(now, in_plane, {})) now = resize_labels(now, in_plane);
  if (slices && now.size(*slices + 1) != shape[static_cast<std::size_t>(*slices)])
    now = nearest_slices(now, *slices, shape[static_cast<std::size_t>(*slices)]);
  return now;
}

}  // namespace sluice
