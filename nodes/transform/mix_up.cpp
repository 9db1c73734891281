// mix_up: MONAI's MixUpd (Zhang et al. 2018).
#include "nodes/transform/mixing.h"

namespace sluice {
namespace {

struct MixUp final : MixNode {
  using Params = MixParams;
  Params p;

  static Spec spec() {
    return mix_spec<Params>("mix_up",
                            "Each member of a batch becomes w x + (1 - w) y with another one, y.",
                            "Images and labels [N, ...]; labels are shares of classes, float32.")
        .takes("@keys", Form::any)
        .changes("@keys")
        .dtype("float32")
        .couples();
  }

  void process(Firing& f) override { mix_keys(f, p, /*has_space=*/false, mix_up); }
};

const Register<MixUp> registered;

}  // namespace
}  // namespace sluice
