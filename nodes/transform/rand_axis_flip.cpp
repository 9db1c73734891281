// rand_axis_flip: MONAI's RandAxisFlipd. One draw for all keys.
#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandAxisFlip final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    double prob = 0.1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_axis_flip", "Flips all keys along one randomly drawn spatial axis.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to flip, each [C, X, Y, Z], [C, X, Y] or a signal [C, X].")
        .param("prob", &Params::prob, "Probability of a flip.")
        .range(0, 1)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .random()
        .rearranging()
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 1, 3);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    for_each_pending(
        out, p.keys, p.allow_missing_keys,
        [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
          Random draws = random;  // a copy: every key gets the same axis
          Reorder r;
          r.flip[draws.integer(static_cast<std::uint64_t>(axes))] = true;
          // values: for each axis whether it is flipped.
          record(field, reordered(r), "rand_axis_flip", {r.flip.begin(), r.flip.end()});
        },
        1);
    finish(f, std::move(out));
  }
};

const Register<RandAxisFlip> registered;

}  // namespace
}  // namespace sluice
