#include "kernels/loss/similarity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "engine/base/error.h"

namespace sluice {
namespace {

void normalise(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= sum;
}

// value(x) of x = -(size - 1) / 2, ..., (size - 1) / 2.
template <class F>
std::vector<double> centred(std::int64_t size, const F& value) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < size; ++i)
    weights.push_back(value(static_cast<double>(i) - static_cast<double>(size - 1) / 2));
  return weights;
}

// Windows up to this extent are sums of shifted images on the CPU, where a convolution of single
// channels takes three times as long with its backward pass (tools/bench/losses.py).
constexpr std::int64_t most_shifts = 15;

at::Tensor shifted_sum(at::Tensor x, const std::vector<double>& kernel, std::int64_t axis,
                       bool same) {
  const std::int64_t size = std::ssize(kernel), half = same ? (size - 1) / 2 : 0;
  std::vector<std::int64_t> rim(static_cast<std::size_t>(2 * (x.dim() - axis)), 0);
  rim[rim.size() - 1] = rim[rim.size() - 2] = half;
  const at::Tensor wide = half > 0 ? at::constant_pad_nd(x, rim) : x;
  x.reset();  // the padded one is enough
  const std::int64_t extent = wide.size(axis) - size + 1;
  at::Tensor sum = wide.narrow(axis, 0, extent) * kernel[0];
  for (std::int64_t k = 1; k < size; ++k)
    sum.add_(wide.narrow(axis, k, extent), kernel[static_cast<std::size_t>(k)]);
  return sum;
}

}  // namespace

at::Tensor filtered(const at::Tensor& x, const std::vector<std::vector<double>>& by_axis,
                    bool same) {
  const std::int64_t axes = x.dim() - 2, channels = x.size(1);
  at::Tensor y = x;
  for (std::int64_t d = 0; d < axes; ++d) {
    const auto& kernel = by_axis[static_cast<std::size_t>(d)];
    if (x.is_cpu() && std::ssize(kernel) <= most_shifts) {
      y = shifted_sum(std::move(y), kernel, d + 2, same);
      continue;
    }
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1), padding(axes, 0);
    shape[0] = channels;
    shape[static_cast<std::size_t>(d) + 2] = std::ssize(kernel);
    if (same) padding[static_cast<std::size_t>(d)] = (std::ssize(kernel) - 1) / 2;
    std::vector<std::int64_t> one(shape);
    one[0] = 1;
    const at::Tensor weight =
        at::tensor(kernel, at::kDouble).to(x.options(), /*non_blocking=*/true).view(one);
    y = at::convolution(y, weight.expand(shape), {}, std::vector<std::int64_t>(axes, 1), padding,
                        std::vector<std::int64_t>(axes, 1), false,
                        std::vector<std::int64_t>(axes, 0), channels);
  }
  return y;
}

at::Tensor filtered(const at::Tensor& x, const std::vector<double>& kernel, bool same) {
  return filtered(
      x, std::vector<std::vector<double>>(static_cast<std::size_t>(x.dim() - 2), kernel), same);
}

std::vector<double> scale_kernel(double sigma, const std::string& kind) {
  if (kind == "cauchy") {
    const auto tail = static_cast<std::int64_t>(sigma * 5);
    auto weights =
        centred(2 * tail + 1, [&](double x) { return 1 / ((x / sigma) * (x / sigma) + 1); });
    normalise(weights);
    return weights;
  }
  const auto tail = static_cast<std::int64_t>(std::max(sigma * 3, 0.5) + 0.5);
  return centred(2 * tail + 1, [&](double x) {
    return std::exp(-0.5 * x * x / (sigma * sigma)) / (2.5066282 * sigma);
  });
}

std::vector<double> window_kernel(std::int64_t size, const std::string& kind) {
  if (kind == "rectangular") return std::vector<double>(static_cast<std::size_t>(size), 1.0);
  if (kind == "gaussian") {
    const double sigma = static_cast<double>(size) / 3;
    return centred(size, [&](double x) { return std::exp(-0.5 * x * x / (sigma * sigma)); });
  }
  // A box of about half the size, smoothed by itself.
  std::int64_t box = (size + 1) / 2;
  if (box % 2 == 0) --box;
  return centred(size, [&](double x) {
    return std::max(0.0, static_cast<double>(box) - std::abs(x)) / static_cast<double>(box * box);
  });
}

Ssim ssim(const at::Tensor& a, const at::Tensor& b, const SsimParams& p) {
  if (p.kernel_type != "gaussian" && p.kernel_type != "uniform")
    throw Error(Exit::usage, "kernel_type is gaussian or uniform, not " + p.kernel_type);
  const auto axes = static_cast<std::size_t>(a.dim() - 2);
  for (const std::size_t given : {p.win_size.size(), p.kernel_sigma.size()})
    if (given != 1 && given != axes)
      throw Error(Exit::usage, "win_size or kernel_sigma has " + std::to_string(given) +
                                   " values for " + std::to_string(axes) + " spatial axes");
  std::vector<std::vector<double>> kernels;
  for (std::size_t d = 0; d < axes; ++d) {
    const std::int64_t size = p.win_size[p.win_size.size() == 1 ? 0 : d];
    const double sigma = p.kernel_sigma[p.kernel_sigma.size() == 1 ? 0 : d];
    if (size < 1 || a.size(static_cast<std::int64_t>(d) + 2) < size)
      throw DataError("the window of " + std::to_string(size) +
                      " voxels does not lie in an image " + c10::str(a.sizes()));
    const bool uniform = p.kernel_type == "uniform";
    kernels.push_back(centred(
        size, [&](double x) { return uniform ? 1 : std::exp(-x * x / (sigma * sigma) / 2); }));
    normalise(kernels.back());
  }
  const auto mean = [&](const at::Tensor& x) { return filtered(x, kernels, false); };
  const double c1 = std::pow(p.k1 * p.data_range, 2), c2 = std::pow(p.k2 * p.data_range, 2);
  const at::Tensor x = mean(a), y = mean(b);
  const at::Tensor xx = mean(a * a) - x * x, yy = mean(b * b) - y * y, xy = mean(a * b) - x * y;
  const at::Tensor contrast = (2 * xy + c2) / (xx + yy + c2);
  return {(2 * x * y + c1) / (x * x + y * y + c1) * contrast, contrast};
}

}  // namespace sluice
