// rand_gaussian_smooth: MONAI's RandGaussianSmoothd. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/gaussian.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandGaussianSmooth final : FusedNode {
  struct Params : RandIntensityParams {
    std::vector<double> sigma_x{0.25, 1.5}, sigma_y{0.25, 1.5}, sigma_z{0.25, 1.5};
    std::string approx = "erf";
  } p;

  static Spec spec() {
    Spec s("rand_gaussian_smooth", "Smooths with a Gaussian of randomly drawn widths.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to smooth, [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("sigma_x", &Params::sigma_x, "[low, high]: standard deviation along x in voxels.")
        .length(2, 2)
        .at_least(1e-3)
        .param("sigma_y", &Params::sigma_y, "The same along y.")
        .length(2, 2)
        .at_least(1e-3)
        .param("sigma_z", &Params::sigma_z, "The same along z, where there is one.")
        .length(2, 2)
        .at_least(1e-3)
        .param("approx", &Params::approx, "How the Gaussian becomes weights.")
        .choices(gaussian_names);
    return add_rand_intensity_params(s, 2).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    std::vector<double> drawn;
    for (const auto* range : {&p.sigma_x, &p.sigma_y, &p.sigma_z})
      drawn.push_back(draw(random, *range));
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
                       append(field, smoothed(first_axes(drawn, axes)));
                     });
    finish(f, std::move(out));
  }

 private:
  PendingStep smoothed(const std::vector<double>& sigma) const {
    PendingStep step =
        filtered(ops_of(kernels::AugmentKind::blur, {}),
                 [sigma, approx = p.approx](const at::Tensor& from, const at::Tensor& into) {
                   return gaussian(from, sigma, approx, false, into);
                 });
    for (const double s : sigma) {
      step.taps.push_back(gaussian_weights(s, p.approx));
      if (step.taps.back().size() > 2 * kernels::blur_reach + 1)
        step.limited = "a Gaussian that reaches further than 16 voxels";
    }
    return step;
  }
};

const Register<RandGaussianSmooth> registered;

}  // namespace
}  // namespace sluice
