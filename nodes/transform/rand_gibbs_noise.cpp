// rand_gibbs_noise: MONAI's RandGibbsNoised. One draw for all keys.
#include "engine/run/registry.h"
#include "nodes/transform/fourier.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandGibbsNoise final : Node {
  struct Params : RandIntensityParams {
    std::vector<double> alpha{0, 1};
  } p;

  static Spec spec() {
    Spec s("rand_gibbs_noise", "Takes high frequencies away, how many is drawn: Gibbs artefacts.");
    add_changed_keys(s)
        .param("alpha", &Params::alpha,
               "[low, high] of how much goes: 0 nothing, 1 nearly everything; one number v stands "
               "for [0, v].")
        .range(0, 1)
        .length(1, 2)
        .rising();
    return add_rand_intensity_params(s).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    const double alpha = random.uniform(p.alpha.size() == 1 ? 0 : p.alpha.front(), p.alpha.back());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      field.tensor = gibbs_noise(field.tensor, alpha);
    });
    f.emit(std::move(out));
  }
};

const Register<RandGibbsNoise> registered;

}  // namespace
}  // namespace sluice
