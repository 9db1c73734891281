// gaussian_smooth: MONAI's GaussianSmoothd.
#include "engine/run/registry.h"
#include "kernels/image/gaussian.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct GaussianSmooth final : Node {
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
    return add_intensity_params(s, 2);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      const auto sigma = one_an_axis(p.sigma, axes);
                      field.tensor = from_volume(gaussian(volume, sigma, p.approx), axes);
                    });
    f.emit(std::move(out));
  }
};

const Register<GaussianSmooth> registered;

}  // namespace
}  // namespace sluice
