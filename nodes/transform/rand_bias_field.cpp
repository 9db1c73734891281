// rand_bias_field: MONAI's RandBiasFieldd. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/bias_field.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandBiasField final : FusedNode {
  struct Params : RandIntensityParams {
    std::int64_t degree = 3;
    std::vector<double> coeff_range{0.0, 0.1};
  } p;

  static Spec spec() {
    Spec s("rand_bias_field",
           "Multiplies by exp of a random Legendre series, as uneven MR coils do; all keys and "
           "channels get the same field.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to change, [C, X, Y] or [C, X, Y, Z]; they become float32.")
        .param("degree", &Params::degree, "Degree of the series.")
        .range(1, 16)
        .param("coeff_range", &Params::coeff_range, "Bounds of the series' coefficients.")
        .length(2, 2);
    return add_rand_intensity_params(s, 2).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
                       append(field, biased(static_cast<int>(axes), random));
                     });
    finish(f, std::move(out));
  }

 private:
  // `random` is a copy: every key gets the same numbers.
  PendingStep biased(int axes, Random random) const {
    const int degree = static_cast<int>(p.degree);
    std::vector<double> coefficients(kernels::bias_coefficients(axes, degree));
    for (double& c : coefficients) c = random.uniform(p.coeff_range[0], p.coeff_range[1]);
    const auto table = kernels::bias_table(axes, degree, coefficients);
    PendingStep step = changed(ops_of(kernels::AugmentKind::bias, {}), [=](const at::Tensor& from,
                                                                           const at::Tensor& into) {
      if (axes == 3) return kernels::apply_bias_field(from, degree, table, into);
      const at::Tensor to = into.defined() ? into.squeeze(3) : into;
      return kernels::apply_bias_field(from.squeeze(3), degree, table, to).unsqueeze(3);
    });
    if (axes == 3 && degree <= 3)
      step.bias = kernels::cubic_coefficients(degree, table);
    else
      step.limited = "a bias field of a picture, or of a degree above 3,";
    return step;
  }
};

const Register<RandBiasField> registered;

}  // namespace
}  // namespace sluice
