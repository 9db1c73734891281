// rand_gaussian_noise: MONAI's RandGaussianNoised. One draw for all keys.
#include "engine/registry.h"
#include "engine/transform.h"
#include "kernels/intensity.h"

namespace sluice {
namespace {

struct RandGaussianNoise final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    double prob = 0.1, mean = 0.0, std = 0.1;
    bool sample_std = true, allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_gaussian_noise", "Adds Gaussian noise; all keys get the same noise.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to add noise to, each [C, ...]; they become float32.")
        .param("prob", &Params::prob, "Probability that a sample gets noise.")
        .range(0, 1)
        .param("mean", &Params::mean, "Mean of the noise, in the image's units.")
        .param("std", &Params::std, "Standard deviation of the noise, in the image's units.")
        .at_least(0)
        .param("sample_std", &Params::sample_std,
               "Draw the standard deviation from [0, std] for each sample.")
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .random()
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    const double std = p.sample_std ? random.uniform(0, p.std) : p.std;
    const Random::Stream stream = random.stream();
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      field.tensor = kernels::add_noise(field.tensor, p.mean, std, stream);
    });
    f.emit(std::move(out));
  }
};

const Register<RandGaussianNoise> registered;

}  // namespace
}  // namespace sluice
