// rand_gaussian_noise: MONAI's RandGaussianNoised. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandGaussianNoise final : FusedNode {
  struct Params : RandIntensityParams {
    double mean = 0.0, std = 0.1;
    bool sample_std = true;
  } p;

  static Spec spec() {
    Spec s("rand_gaussian_noise", "Adds Gaussian noise; all keys get the same noise.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to add noise to, each [C, ...]; they become float32.")
        .param("mean", &Params::mean, "Mean of the noise, in the image's units.")
        .param("std", &Params::std, "Standard deviation of the noise, in the image's units.")
        .at_least(0)
        .param("sample_std", &Params::sample_std,
               "Draw the standard deviation from [0, std] for each sample.");
    return add_rand_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const double std = p.sample_std ? random.uniform(0, p.std) : p.std;
    const Random::Stream stream = random.stream();
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      kernels::AugmentOp op{kernels::AugmentKind::noise, -1, {float(p.mean), float(std)}};
      op.key = stream.key;
      op.counter = stream.counter_high;
      const double mean = p.mean;
      change_values(field, {op}, [=](const at::Tensor& from, const at::Tensor& into) {
        return kernels::add_noise(from, mean, std, stream, into);
      });
    });
    finish(f, std::move(out));
  }
};

const Register<RandGaussianNoise> registered;

}  // namespace
}  // namespace sluice
