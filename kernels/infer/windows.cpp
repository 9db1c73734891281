#include "kernels/infer/windows.h"

#include <ATen/ops/arange.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// A voxel that only a corner covers is still well defined.
BlendWindow monai_window(const std::vector<std::int64_t>& size, const std::vector<double>& sigmas) {
  BlendWindow w{size, {}, 0};
  float smallest = 1;
  for (std::size_t a = 0; a < size.size(); ++a) {
    const double middle = (size[a] - 1) / 2.0, sigma = size[a] * sigmas[a];
    const at::Tensor x = at::arange(size[a], at::kFloat).sub_(middle);
    w.weights.push_back(x.square().div_(-2 * sigma * sigma).exp_());
    smallest *= w.weights[a].min().item<float>();
  }
  w.least = std::max(smallest, 1e-3f);
  return w;
}

BlendWindow nnunet_window(const std::vector<std::int64_t>& size,
                          const std::vector<double>& sigmas) {
  BlendWindow w{size, {}, 10};
  for (std::size_t a = 0; a < size.size(); ++a) {
    const double sigma = size[a] * sigmas[a];
    const auto reach = static_cast<std::int64_t>(4 * sigma + 0.5);
    at::Tensor weights = at::arange(size[a], at::kFloat);
    float smallest = 1;
    float* const all = weights.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < size[a]; ++i) {
      const std::int64_t from = std::abs(i - size[a] / 2);
      const double z = static_cast<double>(from) / sigma;
      all[i] = from > reach ? 0 : static_cast<float>(std::exp(-0.5 * z * z));
      if (all[i] > 0) smallest = std::min(smallest, all[i]);
    }
    w.least *= smallest;
    w.weights.push_back(a == 0 ? weights.mul_(10) : weights);
  }
  return w;
}

}  // namespace

std::vector<std::int64_t> window_starts(std::int64_t size, std::int64_t window, double overlap,
                                        bool even) {
  std::vector<std::int64_t> out;
  const double wanted = static_cast<double>(window) * (1 - overlap);  // from one to the next
  if (even) {
    const auto rest = static_cast<double>(size - window);
    const auto last = static_cast<std::int64_t>(std::ceil(rest / std::max(1.0, wanted)));
    const double step = last > 0 ? rest / static_cast<double>(last) : 0;
    for (std::int64_t i = 0; i <= last; ++i)
      out.push_back(static_cast<std::int64_t>(std::nearbyint(step * static_cast<double>(i))));
    return out;
  }
  const auto interval = std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
  for (std::int64_t at = 0; at + window < size; at += interval) out.push_back(at);
  out.push_back(size - window);
  return out;
}

BlendWindow blend_window(const std::vector<std::int64_t>& size, const std::string& mode,
                         const std::vector<double>& sigma_scale, bool half) {
  std::vector<double> sigmas;
  for (std::size_t a = 0; a < size.size(); ++a)
    sigmas.push_back(sigma_scale.at(std::min(a, sigma_scale.size() - 1)));
  BlendWindow w = mode == "gaussian" ? monai_window(size, sigmas)
                  : mode == "nnunet" ? nnunet_window(size, sigmas)
                                     : BlendWindow{size, {}, 0};
  w.half = half;
  // The smallest number that float16 has is the smallest weight where one would be less.
  if (half && w.least > 0) w.least = std::max(kernels::as_half(w.least), 0x1p-24f);
  return w;
}

}  // namespace sluice
