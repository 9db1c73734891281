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
        .dtype("float32");
  }

  void process(Firing& f) override {
    Random random = f.random();
    Sample out = f.in();
    const std::optional<Mix> mix = draw_mix(out, p, random);
    if (!mix) return f.emit_ptr(f.ptr());
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      check(*mix, field.tensor, p.keys[i], /*has_space=*/false);
      check_mixes(field.tensor, p.keys[i]);
      field.tensor = mix->mixed(field.tensor);
    });
    f.emit(std::move(out));
  }
};

const Register<MixUp> registered;

}  // namespace
}  // namespace sluice
