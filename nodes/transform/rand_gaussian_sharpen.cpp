// rand_gaussian_sharpen: MONAI's RandGaussianSharpend. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/gaussian.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandGaussianSharpen final : Node {
  struct Params : RandIntensityParams {
    std::vector<double> sigma1_x{0.5, 1.0}, sigma1_y{0.5, 1.0}, sigma1_z{0.5, 1.0};
    std::vector<double> sigma2_x{0.5}, sigma2_y{0.5}, sigma2_z{0.5};
    std::vector<double> alpha{10, 30};
    std::string approx = "erf";
  } p;

  static Spec spec() {
    Spec s("rand_gaussian_sharpen", "Sharpens by Gaussians of randomly drawn widths.");
    s.in("sample").out("sample").param(
        "keys", &Params::keys,
        "Fields to sharpen, [C, X, Y, Z] or [C, X, Y]; they become float32.");
    const auto add = [&](const char* name, auto range, const char* text, std::size_t least) {
      s.param(name, range, text).length(least, 2).above(0);
    };
    const char *y = "The same along y.", *z = "The same along z, where there is one.";
    add("sigma1_x", &Params::sigma1_x, "[low, high]: the first Gaussian's voxels along x.", 2);
    add("sigma1_y", &Params::sigma1_y, y, 2);
    add("sigma1_z", &Params::sigma1_z, z, 2);
    add("sigma2_x", &Params::sigma2_x,
        "The second Gaussian: [low, high], or low, with what was drawn of the first as high.", 1);
    add("sigma2_y", &Params::sigma2_y, y, 1);
    add("sigma2_z", &Params::sigma2_z, z, 1);
    s.param("alpha", &Params::alpha, "[low, high]: weight of the details.")
        .length(2, 2)
        .param("approx", &Params::approx, "How a Gaussian becomes weights.")
        .choices(gaussian_names);
    return add_rand_intensity_params(s, 2);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    std::vector<double> first, second;
    for (const auto* range : {&p.sigma1_x, &p.sigma1_y, &p.sigma1_z})
      first.push_back(draw(random, *range));
    for (const auto* range : {&p.sigma2_x, &p.sigma2_y, &p.sigma2_z}) {
      const double high = range->size() == 2 ? (*range)[1] : first[second.size()];
      second.push_back(random.uniform((*range)[0], high));
    }
    const double alpha = draw(random, p.alpha);
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      field.tensor = from_volume(sharpen(volume, first_axes(first, axes),
                                                         first_axes(second, axes), alpha, p.approx),
                                                 axes);
                    });
    f.emit(std::move(out));
  }
};

const Register<RandGaussianSharpen> registered;

}  // namespace
}  // namespace sluice
