// rotate_box90: MONAI's RotateBox90d.
#include "nodes/transform/image_boxes.h"

namespace sluice {
namespace {

struct RotateBox90 final : TurningBoxes {
  struct Params : ImageBoxParams {
    std::vector<std::int64_t> spatial_axes{0, 1};
    std::int64_t k = 1;
  } p;

  static Spec spec() {
    Spec s = image_box_spec<Params>("rotate_box90",
                                    "Turns images and the boxes in them by quarter turns.");
    return add_turn_axes<Params>(s, "@image_keys")
        .param("k", &Params::k, "Quarter turns; negative: the other way round.");
  }

  void process(Firing& f) override {
    const int k = static_cast<int>((p.k % 4 + 4) % 4);
    if (k == 0) return pass(f);
    turn_with_boxes(f, p, k, "rotate_box90");
  }
};

const Register<RotateBox90> registered;

}  // namespace
}  // namespace sluice
