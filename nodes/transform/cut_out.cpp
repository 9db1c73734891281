// cut_out: MONAI's CutOutd (DeVries and Taylor 2017).
#include "nodes/transform/mixing.h"

namespace sluice {
namespace {

struct CutOut final : MixNode {
  using Params = MixParams;
  Params p;

  static Spec spec() {
    return mix_spec<Params>("cut_out", "Sets a box of each member of a batch to 0.",
                            "Images [N, C, ...]; the same boxes in all.")
        .takes("@keys", Form::batch);
  }

  void process(Firing& f) override {
    Random random = f.random();
    Sample out = f.in();
    const std::optional<Mix> mix = draw_mix(out, p, random);
    if (!mix) return f.emit_ptr(f.ptr());
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      check(*mix, field.tensor, p.keys[i], /*has_space=*/true);
      field.tensor = mix->cut(field.tensor, at::zeros_like(field.tensor));
    });
    f.emit(std::move(out));
  }
};

const Register<CutOut> registered;

}  // namespace
}  // namespace sluice
