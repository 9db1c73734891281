#include "kernels/image/intensity_remap.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace sluice::kernels {

at::Tensor distinct_values(const at::Tensor& image) {
  return std::get<0>(at::unique_consecutive(std::get<0>(image.flatten().sort()))).to(at::kDouble);
}

at::Tensor remapped(const at::Tensor& image, const at::Tensor& values,
                    const std::vector<double>& noise, double slope) {
  const std::int64_t n = values.numel(), width = std::ssize(noise) - n + 1;
  at::Tensor curve = at::empty({n}, at::kDouble);
  double* c = curve.mutable_data_ptr<double>();
  double sum = 0;
  for (std::int64_t i = 0; i < width - 1; ++i) sum += noise[static_cast<std::size_t>(i)];
  for (std::int64_t i = 0; i < n; ++i) {  // a running sum
    sum += noise[static_cast<std::size_t>(i + width - 1)];
    c[i] =
        sum / static_cast<double>(width) + slope * static_cast<double>(i) / static_cast<double>(n);
    sum -= noise[static_cast<std::size_t>(i)];
  }
  const double low = curve.min().item<double>(), high = curve.max().item<double>();
  const double* v = values.const_data_ptr<double>();
  const double range = high > low ? high - low : 1;  // one value: it stays the minimum
  curve = ((curve - low) / range * v[n - 1] + v[0]).to(at::kFloat);
  const at::Tensor places =
      at::searchsorted(values.to(at::kFloat), image.to(at::kFloat).contiguous());
  return curve.index_select(0, places.flatten()).view(image.sizes());
}

}  // namespace sluice::kernels
