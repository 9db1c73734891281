#include "kernels/image/label_votes.h"

#include <ATen/Dispatch.h>
#include <c10/util/Half.h>

#include <array>
#include <vector>

#include "kernels/image/spatial.h"
#include "kernels/image/stretched_axis.h"

namespace sluice {
namespace {

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
  void round_to_thousandths() {
    for (int k = 0; k < n; ++k) sum[k] = static_cast<float>(c10::Half(float(1000 * sum[k])));
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

struct LinearPlaces {
  std::vector<std::int64_t> low, high, near;
  std::vector<double> share;  // of the upper one

  LinearPlaces(std::int64_t from, std::int64_t to) {
    for (std::int64_t i = 0; i < to; ++i) {
      const double x = stretched_place(i, from, to), floor = std::floor(x);
      low.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(floor), 0, from - 1));
      high.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) + 1, 0, from - 1));
      near.push_back(nearest_voxel(x, from));
      share.push_back(x - floor);
    }
  }
};

template <class T>
void resize(const T* source, T* target, const Shape3& from, const Shape3& to) {
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

template <class T>
void resample(const T* source, T* target, const Shape3& from, const Shape3& to, const Affine& m,
              T outside) {
  const auto at = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    if (i < 0 || j < 0 || k < 0 || i >= from[0] || j >= from[1] || k >= from[2]) return outside;
    return source[(i * from[1] + j) * from[2] + k];
  };
  for (std::int64_t i = 0; i < to[0]; ++i)
    for (std::int64_t j = 0; j < to[1]; ++j)
      for (std::int64_t k = 0; k < to[2]; ++k, ++target) {
        double x[3], share[3];
        std::int64_t low[3], near[3];
        for (int d = 0; d < 3; ++d) {
          x[d] = m[4 * d] * double(i) + m[4 * d + 1] * double(j) + m[4 * d + 2] * double(k) +
                 m[4 * d + 3];
          low[d] = static_cast<std::int64_t>(std::floor(x[d]));
          share[d] = x[d] - static_cast<double>(low[d]);
          near[d] = static_cast<std::int64_t>(std::nearbyint(x[d]));
        }
        const T nearest = at(near[0], near[1], near[2]);
        std::array<T, 8> corners;
        bool same = true;
        for (int c = 0; c < 8; ++c) {
          corners[c] = at(low[0] + (c >> 2 & 1), low[1] + (c >> 1 & 1), low[2] + (c & 1));
          same = same && corners[c] == nearest;
        }
        if (same) {
          *target = nearest;
          continue;
        }
        Votes<T> votes;
        for (int c = 0; c < 8; ++c)
          votes.add(corners[c], (c & 4 ? share[0] : 1 - share[0]) *
                                    (c & 2 ? share[1] : 1 - share[1]) *
                                    (c & 1 ? share[2] : 1 - share[2]));
        votes.round_to_thousandths();
        *target = votes.winner(nearest);
      }
}

// fn(source, target, value of type T) for each channel.
template <class Fn>
at::Tensor each_channel(const at::Tensor& label, const Shape3& to, Fn&& fn) {
  const at::Tensor from = label.contiguous();
  at::Tensor out = at::empty({label.size(0), to[0], to[1], to[2]}, label.options());
  AT_DISPATCH_ALL_TYPES_AND(at::kBool, label.scalar_type(), "label_votes", [&] {
    for (std::int64_t c = 0; c < label.size(0); ++c)
      fn(from[c].const_data_ptr<scalar_t>(), out[c].mutable_data_ptr<scalar_t>());
  });
  return out;
}

}  // namespace

at::Tensor label_resize(const at::Tensor& label, const Shape3& shape, std::optional<int> slices) {
  const Shape3 from = shape_of(label);
  Shape3 in_plane = shape;
  if (slices) in_plane[static_cast<std::size_t>(*slices)] = label.size(*slices + 1);
  at::Tensor now = label;
  if (from != in_plane)
    now = each_channel(label, in_plane, [&](const auto* source, auto* target) {
      resize(source, target, from, in_plane);
    });
  return slices ? nearest_slices(now, *slices, shape[static_cast<std::size_t>(*slices)]) : now;
}

at::Tensor label_resample(const at::Tensor& label, const Affine& to_source, const Shape3& shape,
                          double outside) {
  const Shape3 from = shape_of(label);
  return each_channel(label, shape, [&]<class T>(const T* source, T* target) {
    resample(source, target, from, shape, to_source, static_cast<T>(outside));
  });
}

}  // namespace sluice
