#include "nodes/transform/named_filter.h"

#include "kernels/image/median.h"
#include "nodes/transform/kernel_filter.h"

namespace sluice {

void NamedFilter::require_whole() const {
  require_odd("filter_size", filter_size);
  if (filter == "gauss" && !sigma) throw Error(Exit::usage, "sigma: the filter gauss needs it");
  if (filter == "savitzky_golay") {
    if (!order) throw Error(Exit::usage, "order: the filter savitzky_golay needs it");
    require_window(filter_size, *order);
  }
  if (filter == "sobel" && filter_size < 3)
    throw Error(Exit::usage, "filter_size: sobel needs 3 or more");
}

at::Tensor NamedFilter::of(const at::Tensor& image) const {
  const std::int64_t axes = image.dim() - 2, size = filter_size;
  if (filter == "mean") return apply_filter(image, mean_kernel(axes, size));
  if (filter == "laplace") return apply_filter(image, laplace_kernel(axes, size));
  if (filter == "elliptical") return apply_filter(image, elliptical_kernel(axes, size));
  if (filter == "sharpen") return apply_filter(image, sharpen_kernel(axes, size));
  if (filter == "median") return median_filter(image, {size / 2});
  if (filter == "savitzky_golay")
    return filter_along(image, spatial_axis(axis, image), savitzky_golay_kernel(size, *order),
                        mode);
  if (filter == "sobel") return slopes(image);
  require_one_an_axis(sigma->size(), "sigma", axes);
  std::vector<at::Tensor> kernels;
  for (const double s : *sigma)
    kernels.push_back(gaussian_kernel(at::scalar_tensor(s, at::kDouble), truncated, approx));
  return separable_filtering(image, kernels);
}

at::Tensor NamedFilter::slopes(const at::Tensor& image) const {
  std::vector<std::int64_t> axes;
  const std::int64_t n = image.dim() - 2;
  if (spatial_axes)
    for (const auto a : *spatial_axes) {
      if (a < -n || a >= n)
        throw DataError("spatial_axes: an image of " + std::to_string(n) + " has no axis " +
                        std::to_string(a));
      axes.push_back(a < 0 ? a + n : a);
    }
  else
    for (std::int64_t a = 0; a < n; ++a) axes.push_back(a);
  at::Tensor out = sobel(image, filter_size, axes, normalize_kernels, padding_mode);
  if (normalize_gradients)
    for (at::Tensor& one : out.chunk(static_cast<std::int64_t>(axes.size()), 1)) {
      if (at::ne(one.min(), one.max()).item<bool>()) one.sub_(one.min());
      if (const double most = one.max().item<double>(); most > 0) one.div_(most);
    }
  return out;
}

}  // namespace sluice
