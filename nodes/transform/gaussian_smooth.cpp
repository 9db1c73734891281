// gaussian_smooth: MONAI's GaussianSmoothd.
#include "kernels/image/gaussian.h"
#include "nodes/transform/each_key.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct GaussianSmooth final : EachVolume<GaussianSmooth> {
  struct Params : IntensityParams {
    std::vector<double> sigma{1.0};
    std::string approx = "erf";
  } p;

  static Spec spec() {
    Spec s("gaussian_smooth", "Smooths with a Gaussian.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to smooth, [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("sigma", &Params::sigma, "Standard deviation in voxels, one or one an axis.")
        .at_least(1e-3)
        .length(1, 3)
        .param("approx", &Params::approx, "How the Gaussian becomes weights.")
        .choices(gaussian_names);
    return add_intensity_params(s, 2).per_axis("@keys", "sigma");
  }

  at::Tensor changed(const at::Tensor& volume, std::int64_t axes) const {
    return gaussian(volume, one_an_axis(p.sigma, axes, "sigma"), p.approx);
  }
};

const Register<GaussianSmooth> registered;

}  // namespace
}  // namespace sluice
