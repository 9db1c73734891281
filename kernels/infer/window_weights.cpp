#include "kernels/infer/window_weights.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "kernels/base/as_half.h"

namespace sluice {
namespace {

// A voxel that only a corner covers is still well defined.
WindowWeights monai_window(const std::vector<std::int64_t>& size,
                           const std::vector<double>& sigmas) {
  WindowWeights w;
  float smallest = 1;
  for (std::size_t a = 0; a < size.size(); ++a) {
    const auto middle = static_cast<float>(static_cast<double>(size[a] - 1) / 2);
    const double sigma = static_cast<double>(size[a]) * sigmas[a];
    const auto divisor = static_cast<float>(-2 * sigma * sigma);
    std::vector<float>& all = w.axes.emplace_back();
    for (std::int64_t i = 0; i < size[a]; ++i) {
      const float x = static_cast<float>(i) - middle;
      all.push_back(std::exp(x * x / divisor));
    }
    smallest *= *std::ranges::min_element(all);
  }
  w.least = std::max(smallest, 1e-3f);
  return w;
}

WindowWeights nnunet_window(const std::vector<std::int64_t>& size,
                            const std::vector<double>& sigmas) {
  WindowWeights w{{}, 10};
  for (std::size_t a = 0; a < size.size(); ++a) {
    const double sigma = static_cast<double>(size[a]) * sigmas[a];
    const auto reach = static_cast<std::int64_t>(4 * sigma + 0.5);
    float smallest = 1;
    std::vector<float>& all = w.axes.emplace_back();
    for (std::int64_t i = 0; i < size[a]; ++i) {
      const std::int64_t from = std::abs(i - size[a] / 2);
      const double z = static_cast<double>(from) / sigma;
      all.push_back(from > reach ? 0 : static_cast<float>(std::exp(-0.5 * z * z)));
      if (all.back() > 0) smallest = std::min(smallest, all.back());
    }
    w.least *= smallest;
    for (float& v : all) v *= a == 0 ? 10.0f : 1.0f;
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

std::vector<std::vector<std::int64_t>> window_places(const std::vector<std::int64_t>& size,
                                                     const std::vector<std::int64_t>& window,
                                                     const std::vector<double>& overlap,
                                                     bool even) {
  if (overlap.empty()) throw DataError("overlap is an empty list");
  std::vector<std::vector<std::int64_t>> places{{}};
  for (std::size_t a = 0; a < window.size(); ++a) {
    std::vector<std::vector<std::int64_t>> longer;
    const double part = overlap.at(std::min(a, overlap.size() - 1));
    for (const auto& place : places)
      for (const std::int64_t at : window_starts(size[a], window[a], part, even)) {
        longer.push_back(place);
        longer.back().push_back(at);
      }
    places = std::move(longer);
  }
  return places;
}

WindowWeights window_weights(const std::vector<std::int64_t>& size, const std::string& mode,
                             const std::vector<double>& sigma_scale, bool half) {
  std::vector<double> sigmas;
  for (std::size_t a = 0; a < size.size(); ++a)
    sigmas.push_back(sigma_scale.at(std::min(a, sigma_scale.size() - 1)));
  WindowWeights w = mode == "gaussian" ? monai_window(size, sigmas)
                    : mode == "nnunet" ? nnunet_window(size, sigmas)
                                       : WindowWeights{};
  // The smallest number that float16 has is the smallest weight where one would be less.
  if (half && w.least > 0) w.least = std::max(kernels::as_half(w.least), 0x1p-24f);
  return w;
}

}  // namespace sluice
