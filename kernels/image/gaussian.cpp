#include "kernels/image/gaussian.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "kernels/image/separable.h"
#include "kernels/image/spatial.h"

namespace sluice {

std::vector<float> gaussian_weights(double sigma, const std::string& approx) {
  const int tail = static_cast<int>(std::max(4.0 * sigma, 0.5) + 0.5);
  const double t = std::sqrt(0.5) / std::abs(sigma), variance = sigma * sigma;
  std::vector<float> weights;
  for (int x = -tail; x <= tail; ++x) {
    double w;
    if (approx == "erf")
      w = std::max(0.0, 0.5 * (std::erf(t * (x + 0.5)) - std::erf(t * (x - 0.5))));
    else if (approx == "sampled")
      w = std::exp(-0.5 / variance * x * x) / (std::sqrt(2 * M_PI) * sigma);
    else if (approx == "scalespace")
      w = std::exp(-variance) * std::cyl_bessel_i(std::abs(x), variance);
    else
      throw DataError("approx \"" + approx + "\" is none of erf, sampled, scalespace");
    weights.push_back(static_cast<float>(w));
  }
  return weights;
}

at::Tensor gaussian(const at::Tensor& volume, const std::vector<double>& sigma,
                    const std::string& approx, bool parallel, const at::Tensor& into) {
  const Shape3 n = shape_of(volume);
  Bands bands;
  for (std::size_t d = 0; d < 3; ++d)
    bands[d] =
        d < sigma.size() ? filter_axis(n[d], gaussian_weights(sigma[d], approx)) : keep_axis(n[d]);
  return map_axes(volume, bands, parallel, into);
}

at::Tensor sharpen(const at::Tensor& volume, const std::vector<double>& sigma1,
                   const std::vector<double>& sigma2, double alpha, const std::string& approx) {
  at::Tensor once = gaussian(volume, sigma1, approx);
  const at::Tensor twice = gaussian(once, sigma2, approx);
  return once.mul_(1 + alpha).sub_(twice, alpha);  // a tensor of our own
}

}  // namespace sluice
