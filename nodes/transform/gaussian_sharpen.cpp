// gaussian_sharpen: MONAI's GaussianSharpend.
#include "kernels/image/gaussian.h"
#include "nodes/transform/each_key.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct GaussianSharpen final : EachVolume<GaussianSharpen> {
  struct Params : IntensityParams {
    std::vector<double> sigma1{3}, sigma2{1};
    double alpha = 30;
    std::string approx = "erf";
  } p;

  static Spec spec() {
    Spec s("gaussian_sharpen", "b + alpha (b - g(b)), where b is the smoothed image.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to sharpen, [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("sigma1", &Params::sigma1, "Voxels of the first Gaussian, one or one an axis.")
        .at_least(1e-3)
        .length(1, 3)
        .param("sigma2", &Params::sigma2, "Voxels of the second Gaussian, one or one an axis.")
        .at_least(1e-3)
        .length(1, 3)
        .param("alpha", &Params::alpha, "Weight of the details.")
        .param("approx", &Params::approx, "How a Gaussian becomes weights.")
        .choices(gaussian_names);
    return add_intensity_params(s, 2).per_axis("@keys", "sigma1").per_axis("@keys", "sigma2");
  }

  at::Tensor changed(const at::Tensor& volume, std::int64_t axes) const {
    return sharpen(volume, one_an_axis(p.sigma1, axes, "sigma1"),
                   one_an_axis(p.sigma2, axes, "sigma2"), p.alpha, p.approx);
  }
};

const Register<GaussianSharpen> registered;

}  // namespace
}  // namespace sluice
