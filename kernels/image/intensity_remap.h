// Intensities replaced along a random curve (Hu et al. 2020), as MONAI's IntensityRemap.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice::kernels {

// The values of an image, each once, in order: float64.
at::Tensor distinct_values(const at::Tensor& image);

// The i-th of `values` becomes the mean of noise i .. i + kernel_size - 1, plus slope i / n, all of
// it scaled to 0 .. 1 and then by the image's maximum, from its minimum on. `noise` has
// kernel_size - 1 more than `values`. float32 of the image's shape.
at::Tensor remapped(const at::Tensor& image, const at::Tensor& values,
                    const std::vector<double>& noise, double slope);

}  // namespace sluice::kernels
