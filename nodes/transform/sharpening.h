// What gaussian_sharpen and rand_gaussian_sharpen do to one image: smooth it, smooth that again,
// and add what the second smoothing took away.
#pragma once

#include <ATen/Functions.h>

#include <string>
#include <vector>

#include "kernels/gaussian.h"

namespace sluice {

inline at::Tensor sharpen(const at::Tensor& volume, const std::vector<double>& sigma1,
                          const std::vector<double>& sigma2, double alpha,
                          const std::string& approx) {
  at::Tensor once = gaussian(volume, sigma1, approx);
  const at::Tensor twice = gaussian(once, sigma2, approx);
  return once.mul_(1 + alpha).sub_(twice, alpha);  // a tensor of our own
}

}  // namespace sluice
