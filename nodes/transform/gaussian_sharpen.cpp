// gaussian_sharpen: MONAI's GaussianSharpend.
#include "engine/registry.h"
#include "kernels/gaussian.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct GaussianSharpen final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::vector<double> sigma1{3}, sigma2{1};
    double alpha = 30;
    std::string approx = "erf";
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("gaussian_sharpen", "b + alpha (b - g(b)), where b is the smoothed image.")
        .in("sample")
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
                      field.tensor =
                          from_volume(sharpen(volume, one_an_axis(p.sigma1, axes),
                                              one_an_axis(p.sigma2, axes), p.alpha, p.approx),
                                      axes);
                    });
    f.emit(std::move(out));
  }
};

const Register<GaussianSharpen> registered;

}  // namespace
}  // namespace sluice
