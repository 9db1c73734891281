// gibbs_noise: MONAI's GibbsNoised.
#include "nodes/transform/each_key.h"
#include "nodes/transform/fourier.h"

namespace sluice {
namespace {

struct GibbsNoise final : EachKey<GibbsNoise> {
  struct Params : KeyParams {
    double alpha = 0.5;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("gibbs_noise",
                                 "Takes the high frequencies away: Gibbs artefacts of MRI.",
                                 "Fields to change, each [C, ...]; they become float32.")
        .param("alpha", &Params::alpha, "How much goes: 0 nothing, 1 nearly everything.")
        .range(0, 1)
        .any_device()
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void change(Field& field, std::size_t) const {
    field.tensor = gibbs_noise(field.tensor, p.alpha);
  }
};

const Register<GibbsNoise> registered;

}  // namespace
}  // namespace sluice
