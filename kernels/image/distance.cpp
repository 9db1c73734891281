#include "kernels/image/distance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::kernels {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// The lower envelope of parabolas f[q] + (step (x - q))^2 at x = 0 .. n - 1.
struct Envelope {
  std::vector<double> height, from;
  std::vector<std::int64_t> at;

  void apply(double* f, std::int64_t n, std::int64_t stride, double step) {
    height.clear(), from.clear(), at.clear();
    const double square = step * step;
    for (std::int64_t q = 0; q < n; ++q) {
      const double h = f[q * stride];
      if (h == infinite) continue;
      double begin = -infinite;
      while (!at.empty()) {
        const double p = static_cast<double>(at.back()), x = static_cast<double>(q);
        begin = ((h - height.back()) / square + x * x - p * p) / (2 * (x - p));
        if (begin > from.back()) break;
        height.pop_back(), from.pop_back(), at.pop_back();
        begin = -infinite;
      }
      height.push_back(h), from.push_back(begin), at.push_back(q);
    }
    if (at.empty()) return;
    std::size_t k = 0;
    for (std::int64_t x = 0; x < n; ++x) {
      while (k + 1 < at.size() && from[k + 1] < static_cast<double>(x)) ++k;
      const double d = static_cast<double>(x - at[k]);
      f[x * stride] = height[k] + square * d * d;
    }
  }
};

// The least of f[q] + |x - q| at each x, or of the larger of both. Looks no farther than the least
// that it knows.
void spread(double* f, std::int64_t n, std::int64_t stride, bool sum, std::vector<double>& line) {
  line.resize(static_cast<std::size_t>(n));
  for (std::int64_t x = 0; x < n; ++x) line[static_cast<std::size_t>(x)] = f[x * stride];
  const auto with = [&](std::int64_t q, double k) {
    const double there = q < 0 || q >= n ? infinite : line[static_cast<std::size_t>(q)];
    return sum ? there + k : std::max(there, k);
  };
  for (std::int64_t x = 0; x < n; ++x) {
    double& best = f[x * stride];
    for (std::int64_t k = 1; k < n && static_cast<double>(k) < best; ++k)
      best = std::min(
          {best, with(x - k, static_cast<double>(k)), with(x + k, static_cast<double>(k))});
  }
}

// Both masks, cut to the box that holds what either has.
void cut(at::Tensor& a, at::Tensor& b) {
  for (std::int64_t axis = 0; axis < a.dim(); ++axis) {
    std::vector<std::int64_t> others;
    for (std::int64_t d = 0; d < a.dim(); ++d)
      if (d != axis) others.push_back(d);
    const at::Tensor either = a.logical_or(b);
    const at::Tensor used =
        (others.empty() ? either : either.to(at::kByte).amax(others)).nonzero().flatten();
    if (used.numel() == 0) return;
    const auto low = used[0].item<std::int64_t>(), high = used[-1].item<std::int64_t>();
    a = a.narrow(axis, low, high - low + 1);
    b = b.narrow(axis, low, high - low + 1);
  }
}

}  // namespace

at::Tensor mask_edges(const at::Tensor& mask) {
  at::Tensor inside = mask.clone();
  for (std::int64_t axis = 0; axis < mask.dim(); ++axis) {
    const std::int64_t n = mask.size(axis);
    inside.select(axis, 0).fill_(false);
    inside.select(axis, n - 1).fill_(false);
    if (n < 3) continue;
    inside.narrow(axis, 1, n - 2)
        .logical_and_(mask.narrow(axis, 0, n - 2))
        .logical_and_(mask.narrow(axis, 2, n - 2));
  }
  return mask.logical_and(inside.logical_not());
}

at::Tensor distance_to(const at::Tensor& set, const std::vector<double>& spacing, Distance metric) {
  at::Tensor out = at::full(set.sizes(), infinite, at::kDouble).masked_fill_(set, 0);
  double* data = out.data_ptr<double>();
  Envelope envelope;
  std::vector<double> line;
  for (std::int64_t axis = 0; axis < set.dim(); ++axis) {
    const std::int64_t n = set.size(axis), stride = out.stride(axis);
    for (std::int64_t i = 0; i < out.numel(); ++i)
      if (i / stride % n != 0)
        continue;
      else if (metric == Distance::euclidean)
        envelope.apply(data + i, n, stride, spacing[static_cast<std::size_t>(axis)]);
      else
        spread(data + i, n, stride, metric == Distance::taxicab, line);
  }
  return metric == Distance::euclidean ? out.sqrt_() : out;
}

at::Tensor surface_distances(const at::Tensor& from, const at::Tensor& to,
                             const std::vector<double>& spacing, Distance metric) {
  at::Tensor a = from.to(at::kCPU).ne(0), b = to.to(at::kCPU).ne(0);
  cut(a, b);
  const at::Tensor edges = mask_edges(a), others = mask_edges(b).contiguous();
  const at::Tensor asked = edges.any().item<bool>() ? edges : others;
  const at::Tensor nearest = asked.is_same(edges) ? others : edges.contiguous();
  return distance_to(nearest, spacing, metric).masked_select(asked).to(at::kFloat);
}

}  // namespace sluice::kernels
