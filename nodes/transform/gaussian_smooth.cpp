// gaussian_smooth: MONAI's GaussianSmoothd.
#include "engine/registry.h"
#include "kernels/gaussian.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct GaussianSmooth final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::vector<double> sigma{1.0};
    std::string approx = "erf";
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("gaussian_smooth", "Smooths with a Gaussian.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to smooth, [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("sigma", &Params::sigma, "Standard deviation in voxels, one or one an axis.")
        .at_least(1e-3)
        .length(1, 3)
        .param("approx", &Params::approx, "How the Gaussian becomes weights.")
        .choices(gaussian_names)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .takes("@keys", Form::image, 2, 3)
        .changes("@keys")
        .dtype("float32");
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
