// rand_flip_box: MONAI's RandFlipBoxd. One draw for all keys.
#include "nodes/transform/image_boxes.h"

namespace sluice {
namespace {

struct RandFlipBox final : FusedNode {
  struct Params : ImageBoxParams {
    std::optional<std::vector<std::int64_t>> spatial_axis;
    double prob = 0.1;
  } p;

  static Spec spec() {
    Spec s = image_box_spec<Params>("rand_flip_box", "Flips images and the boxes in them.");
    return add_flip_axis<Params>(s, "@image_keys")
        .param("prob", &Params::prob, "Probability of a flip.")
        .range(0, 1)
        .random();
  }

  void process(Firing& f) override {
    if (!f.random().chance(p.prob)) return pass(f);
    Sample out = f.in();
    reorder_boxes_of(out, p, [this](std::int64_t axes) { return flips_of(p, axes); });
    sluice::flip(out, p, "rand_flip_box");
    finish(f, std::move(out));
  }
};

const Register<RandFlipBox> registered;

}  // namespace
}  // namespace sluice
