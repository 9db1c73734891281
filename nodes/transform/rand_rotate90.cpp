// rand_rotate90: MONAI's RandRotate90d. One draw for all keys.
#include "nodes/transform/reordering.h"

namespace sluice {
namespace {

struct RandRotate90 final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    double prob = 0.1;
    std::int64_t max_k = 3;
    std::vector<std::int64_t> spatial_axes{0, 1};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_rotate90", "Turns all keys by the same 1 to max_k quarter turns.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to turn, each [C, X, Y, Z] or [C, X, Y].")
        .param("prob", &Params::prob, "Probability of a turn.")
        .range(0, 1)
        .param("max_k", &Params::max_k, "The most quarter turns.")
        .at_least(1)
        .param("spatial_axes", &Params::spatial_axes, "From the first towards the second axis.")
        .range(-3, 2)
        .length(2, 2)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .rearranging()
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .axes("@keys", "spatial_axes")
        .resizes("@keys");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.spatial_axes.size() != 2)
      throw Error(Exit::usage, "spatial_axes must be two axes, not " + list_text(p.spatial_axes));
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
