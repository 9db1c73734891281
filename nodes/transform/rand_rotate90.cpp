// rand_rotate90: MONAI's RandRotate90d. One draw for all keys.
#include "nodes/transform/reordering.h"

namespace sluice {
namespace {

struct RandRotate90 final : FusedNode {
  struct Params : RandReorderParams {
    std::int64_t max_k = 3;
    std::vector<std::int64_t> spatial_axes{0, 1};
  } p;

  static Spec spec() {
    Spec s("rand_rotate90", "Turns all keys by the same 1 to max_k quarter turns.");
    add_drawn_keys(s, "turn", 2)
        .param("max_k", &Params::max_k, "The most quarter turns.")
        .at_least(1);
    return add_missing_keys<Params>(add_turn_axes<Params>(s));
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    require_two_axes(p.spatial_axes);
  }

  void process(Firing& f) override {
    Random random = f.random();
    const int k = static_cast<int>(random.integer(p.max_k)) + 1;
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    sluice::rotate90(out, p, k, "rand_rotate90");
    finish(f, std::move(out));
  }
};

const Register<RandRotate90> registered;

}  // namespace
}  // namespace sluice
