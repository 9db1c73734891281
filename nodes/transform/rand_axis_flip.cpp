// rand_axis_flip: MONAI's RandAxisFlipd. One draw for all keys.
#include "engine/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct RandAxisFlip final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    double prob = 0.1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_axis_flip", "Flips all keys along one randomly drawn spatial axis.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to flip, each [C, X, Y, Z] or [C, X, Y].")
        .param("prob", &Params::prob, "Probability of a flip.")
        .range(0, 1)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .rearranging()
        .takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      Random draws = random;  // a copy: every key gets the same axis
                      Reorder r;
                      r.flip[draws.integer(static_cast<std::uint64_t>(axes))] = true;
                      const Affine m = reorder_affine(r, shape_of(volume));
                      // values: for each axis whether it is flipped.
                      record(field, from_volume(reorder(volume, r), axes),
                             multiply(field.geometry().affine, m), "rand_axis_flip",
                             {r.flip.begin(), r.flip.end()});
                    });
    f.emit(std::move(out));
  }
};

const Register<RandAxisFlip> registered;

}  // namespace
}  // namespace sluice
