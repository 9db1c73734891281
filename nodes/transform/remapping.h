// What intensity_remap and rand_intensity_remap share: the drawn curve.
#pragma once

#include "engine/run/registry.h"
#include "kernels/image/intensity_remap.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

template <class Params>
Spec& add_remap_params(Spec& s) {
  return s
      .param("kernel_size", &Params::kernel_size,
             "How many drawn values each of the image's becomes the mean of.")
      .at_least(1)
      .param("slope", &Params::slope, "Of the straight line that is added to the curve.");
}

inline at::Tensor remapped(const at::Tensor& image, std::int64_t kernel_size, double slope,
                           Random& random) {
  const at::Tensor values = kernels::distinct_values(image);
  const auto n = static_cast<std::uint64_t>(values.numel());
  const double* v = values.const_data_ptr<double>();
  std::vector<double> noise(n + static_cast<std::uint64_t>(kernel_size) - 1);
  for (double& one : noise) one = v[random.integer(n)];
  return kernels::remapped(image, values, noise, slope);
}

}  // namespace sluice
