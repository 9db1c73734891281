// cut_mix: MONAI's CutMixd (Yun et al. 2019).
#include "nodes/transform/mixing.h"

namespace sluice {
namespace {

struct CutMix final : MixNode {
  struct Params : MixParams {
    std::vector<std::string> label_keys;
  } p;

  static Spec spec() {
    return mix_spec<Params>("cut_mix",
                            "Puts a box of another member of the batch into each member.",
                            "Images [N, C, ...]; the same boxes in all.")
        .param("label_keys", &Params::label_keys,
               "Labels [N, ...] of shares of classes, float32: w y + (1 - w) y of the other, with "
               "the drawn w, whatever the box's share at the border.")
        .takes("@keys", Form::batch)
        .takes("@label_keys", Form::any, 0)
        .changes("@label_keys")
        .dtype("float32")
        .couples();
  }

  void process(Firing& f) override {
    const auto cut = [](Field& field, const Mix& mix, const std::string&) {
      field.tensor = mix.cut(field.tensor, mix.others(field.tensor));
    };
    mix_keys(f, p, /*has_space=*/true, cut, [&](Sample& out, const Mix& mix) {
      for_each_key(out, p.label_keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
        check(mix, field.tensor, p.label_keys[i], /*has_space=*/false);
        mix_up(field, mix, p.label_keys[i]);
      });
    });
  }
};

const Register<CutMix> registered;

}  // namespace
}  // namespace sluice
