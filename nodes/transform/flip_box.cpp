// flip_box: MONAI's FlipBoxd.
#include "nodes/transform/image_boxes.h"

namespace sluice {
namespace {

struct FlipBox final : FusedNode {
  struct Params : ImageBoxParams {
    std::optional<std::vector<std::int64_t>> spatial_axis;
  } p;

  static Spec spec() {
    Spec s = image_box_spec<Params>("flip_box", "Flips images and the boxes in them.");
    return add_flip_axis<Params>(s, "@image_keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    reorder_boxes_of(out, p, [this](std::int64_t axes) { return flips_of(p, axes); });
    sluice::flip(out, p, "flip_box");
    finish(f, std::move(out));
  }
};

const Register<FlipBox> registered;

}  // namespace
}  // namespace sluice
