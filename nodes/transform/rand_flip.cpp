// rand_flip: MONAI's RandFlipd. One draw for all keys.
#include "nodes/transform/reordering.h"

namespace sluice {
namespace {

struct RandFlip final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    double prob = 0.1;
    std::optional<std::vector<std::int64_t>> spatial_axis;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_flip", "Flips all keys along the same spatial axes with one draw.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to flip, each [C, X, Y, Z] or [C, X, Y].")
        .param("prob", &Params::prob, "Probability of a flip.")
        .range(0, 1)
        .param("spatial_axis", &Params::spatial_axis, "Spatial axes, 0 = X; null: all of them.")
        .range(-3, 2)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .rearranging()
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .axes("@keys", "spatial_axis");
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    sluice::flip(out, p, "rand_flip");
    finish(f, std::move(out));
  }
};

const Register<RandFlip> registered;

}  // namespace
}  // namespace sluice
