// rand_flip: MONAI's RandFlipd. One draw for all keys.
#include "nodes/transform/reordering.h"

namespace sluice {
namespace {

struct RandFlip final : FusedNode {
  struct Params : RandReorderParams {
    std::optional<std::vector<std::int64_t>> spatial_axis;
  } p;

  static Spec spec() {
    Spec s("rand_flip", "Flips all keys along the same spatial axes with one draw.");
    add_drawn_keys(s, "flip", 1);
    return add_missing_keys<Params>(add_flip_axis<Params>(s));
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
