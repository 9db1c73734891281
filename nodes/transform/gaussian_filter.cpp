// gaussian_filter: MONAI's GaussianFilter.
#include "kernels/image/filters.h"
#include "kernels/image/gaussian.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct GaussianFilterParams : FilterParams {
  std::vector<double> sigma{1};
  double truncated = 4;
  std::string approx = "erf";
};

struct GaussianFilter final : FilterNode<GaussianFilterParams> {
  static Spec spec() {
    Spec s("gaussian_filter",
           "Smooths with a Gaussian; zeros outside, weights not normalised. A field named sigma "
           "takes the parameter's place. Gradients: image, sigma.");
    add_filter_params<Params>(s)
        .param("sigma", &Params::sigma, "Standard deviation in voxels, one or one an axis.")
        .above(0)
        .length(1, 3)
        .param("truncated", &Params::truncated,
               "Where it is cut, in standard deviations; held in the gradient.")
        .above(0)
        .param("approx", &Params::approx, "How the Gaussian becomes weights.")
        .choices(gaussian_names);
    return on_tape(s);
  }

 protected:
  at::Tensor of(const Sample& sample, FilterBatch& image) const override {
    const at::Tensor sigma = trained(sample, "sigma", p.sigma).reshape(-1);
    require_sigmas(sigma, "sigma", image.axes(), "axes");
    std::vector<at::Tensor> kernels;
    for (std::int64_t a = 0; a < sigma.numel(); ++a)
      kernels.push_back(gaussian_kernel(sigma[a], p.truncated, p.approx));
    return separable_filtering(image.of, kernels);
  }
};

const Register<GaussianFilter> registered;

}  // namespace
}  // namespace sluice
