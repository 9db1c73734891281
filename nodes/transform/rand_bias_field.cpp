// rand_bias_field: MONAI's RandBiasFieldd. One draw for all keys.
#include "engine/registry.h"
#include "engine/transform.h"
#include "kernels/bias_field.h"

namespace sluice {
namespace {

struct RandBiasField final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::int64_t degree = 3;
    std::vector<double> coeff_range{0.0, 0.1};
    double prob = 0.1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec(
               "rand_bias_field",
               "Multiplies by exp of a random Legendre series, as uneven MR coils do; all keys and "
               "channels get the same field.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to change, [C, X, Y] or [C, X, Y, Z]; they become float32.")
        .param("degree", &Params::degree, "Degree of the series.")
        .range(1, 16)
        .param("coeff_range", &Params::coeff_range, "Bounds of the series' coefficients.")
        .length(2, 2)
        .param("prob", &Params::prob, "Probability that a sample is changed.")
        .range(0, 1)
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .random()
        .takes("@keys", Form::image, 2, 3)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override {
    if (p.coeff_range.size() != 2)
      throw Error(Exit::usage,
                  "coeff_range needs two numbers, found " + std::to_string(p.coeff_range.size()));
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      const int rank = static_cast<int>(field.tensor.dim()) - 1;
      const int degree = static_cast<int>(p.degree);
      Random draws = random;  // a copy: every key gets the same numbers
      std::vector<double> coefficients(kernels::bias_coefficients(rank, degree));
      for (double& c : coefficients) c = draws.uniform(p.coeff_range[0], p.coeff_range[1]);
      field.tensor = kernels::apply_bias_field(field.tensor, degree,
                                               kernels::bias_table(rank, degree, coefficients));
    });
    f.emit(std::move(out));
  }
};

const Register<RandBiasField> registered;

}  // namespace
}  // namespace sluice
