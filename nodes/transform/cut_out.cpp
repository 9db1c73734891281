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
    mix_keys(f, p, /*has_space=*/true, [](Field& field, const Mix& mix, const std::string&) {
      field.tensor = mix.cut(field.tensor, at::zeros_like(field.tensor));
    });
  }
};

const Register<CutOut> registered;

}  // namespace
}  // namespace sluice
