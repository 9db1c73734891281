// image_filter: MONAI's ImageFilterd.
#include "kernels/image/gaussian.h"
#include "kernels/image/median.h"
#include "nodes/transform/each_key.h"
#include "nodes/transform/kernel_filter.h"

namespace sluice {
namespace {

struct ImageFilter final : EachKey<ImageFilter> {
  struct Params : KeyParams {
    std::string filter, mode = "zeros", padding_mode = "reflect", approx = "erf";
    std::int64_t filter_size = 3, axis = 2;
    std::optional<std::int64_t> order;
    std::optional<std::vector<double>> sigma;
    double truncated = 4;
    std::optional<std::vector<std::int64_t>> spatial_axes;
    bool normalize_kernels = true, normalize_gradients = false;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("image_filter", "Filters images by a filter's name.",
                                 "Fields [C, ...]; they become float32.")
        .param("filter", &Params::filter, "Which one.")
        .choices({"mean", "laplace", "elliptical", "sharpen", "median", "gauss", "sobel",
                  "savitzky_golay"})
        .required()
        .param("filter_size", &Params::filter_size,
               "Voxels of its kernel or window on each axis, odd; not of gauss.")
        .at_least(1)
        .param("sigma", &Params::sigma, "Of gauss, in voxels, one or one an axis.")
        .above(0)
        .length(1, 3)
        .param("truncated", &Params::truncated, "Of gauss: cut there, in sigmas.")
        .above(0)
        .param("approx", &Params::approx, "Of gauss: how it becomes weights.")
        .choices(gaussian_names)
        .param("order", &Params::order, "Of savitzky_golay's polynomial, below filter_size.")
        .at_least(0)
        .param("axis", &Params::axis, "Of savitzky_golay; 2 is the first spatial axis.")
        .param("mode", &Params::mode, "Of savitzky_golay: what lies outside.")
        .choices(padding_names)
        .param("spatial_axes", &Params::spatial_axes,
               "Of sobel: a channel for each; null: for all spatial axes, from 0.")
        .param("normalize_kernels", &Params::normalize_kernels, "Of sobel: true derivatives.")
        .param("normalize_gradients", &Params::normalize_gradients,
               "Of sobel: each axis' slopes from 0 to 1.")
        .param("padding_mode", &Params::padding_mode, "Of sobel: what lies outside.")
        .choices(padding_names)
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override {
    require_odd("filter_size", p.filter_size);
    if (p.filter == "gauss" && !p.sigma)
      throw Error(Exit::usage, "sigma: the filter gauss needs it");
    if (p.filter == "savitzky_golay") {
      if (!p.order) throw Error(Exit::usage, "order: the filter savitzky_golay needs it");
      require_window(p.filter_size, *p.order);
    }
    if (p.filter == "sobel" && p.filter_size < 3)
      throw Error(Exit::usage, "filter_size: sobel needs 3 or more");
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i], 1);
    if (field.tensor.is_complex()) throw DataError("field \"" + p.keys[i] + "\" is complex");
    field.tensor = filtered(field.tensor.to(at::kFloat).unsqueeze(0)).squeeze(0);
  }

 private:
  at::Tensor filtered(const at::Tensor& image) const {
    const std::int64_t axes = image.dim() - 2, size = p.filter_size;
    if (p.filter == "mean") return apply_filter(image, mean_kernel(axes, size));
    if (p.filter == "laplace") return apply_filter(image, laplace_kernel(axes, size));
    if (p.filter == "elliptical") return apply_filter(image, elliptical_kernel(axes, size));
    if (p.filter == "sharpen") return apply_filter(image, sharpen_kernel(axes, size));
    if (p.filter == "median") return median_filter(image, {size / 2});
    if (p.filter == "savitzky_golay")
      return filter_along(image, spatial_axis(p.axis, image), savitzky_golay_kernel(size, *p.order),
                          p.mode);
    if (p.filter == "sobel") return slopes(image);
    require_one_an_axis(p.sigma->size(), "sigma", axes);
    std::vector<at::Tensor> kernels;
    for (const double s : *p.sigma)
      kernels.push_back(gaussian_kernel(at::scalar_tensor(s, at::kDouble), p.truncated, p.approx));
    return separable_filtering(image, kernels);
  }

  at::Tensor slopes(const at::Tensor& image) const {
    std::vector<std::int64_t> axes;
    const std::int64_t n = image.dim() - 2;
    if (p.spatial_axes)
      for (const auto a : *p.spatial_axes) {
        if (a < -n || a >= n)
          throw DataError("spatial_axes: an image of " + std::to_string(n) + " has no axis " +
                          std::to_string(a));
        axes.push_back(a < 0 ? a + n : a);
      }
    else
      for (std::int64_t a = 0; a < n; ++a) axes.push_back(a);
    at::Tensor out = sobel(image, p.filter_size, axes, p.normalize_kernels, p.padding_mode);
    if (p.normalize_gradients)
      for (at::Tensor& one : out.chunk(static_cast<std::int64_t>(axes.size()), 1)) {
        if (at::ne(one.min(), one.max()).item<bool>()) one.sub_(one.min());
        if (const double most = one.max().item<double>(); most > 0) one.div_(most);
      }
    return out;
  }
};

const Register<ImageFilter> registered;

}  // namespace
}  // namespace sluice
