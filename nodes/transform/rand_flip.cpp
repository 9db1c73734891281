// rand_flip: MONAI's RandFlipd. One draw for all keys.
#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

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
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
                       Reorder r;
                       for (std::int64_t d = 0; d < axes && !p.spatial_axis; ++d) r.flip[d] = true;
                       if (p.spatial_axis)
                         for (std::int64_t a : *p.spatial_axis)
                           r.flip[spatial_axis(a, axes)] = true;
                       // values: for each axis whether it is flipped.
                       record(field, reordered(r), "rand_flip", {r.flip.begin(), r.flip.end()});
                     });
    finish(f, std::move(out));
  }
};

const Register<RandFlip> registered;

}  // namespace
}  // namespace sluice
