// rand_rotate_box90: MONAI's RandRotateBox90d. One draw for all keys.
#include "nodes/transform/image_boxes.h"

namespace sluice {
namespace {

struct RandRotateBox90 final : TurningBoxes {
  struct Params : ImageBoxParams {
    std::vector<std::int64_t> spatial_axes{0, 1};
    double prob = 0.1;
    std::int64_t max_k = 3;
  } p;

  static Spec spec() {
    Spec s = image_box_spec<Params>("rand_rotate_box90",
                                    "Turns images and the boxes in them by quarter turns.");
    return add_turn_axes<Params>(s, "@image_keys")
        .param("prob", &Params::prob, "Probability of a turn.")
        .range(0, 1)
        .param("max_k", &Params::max_k, "The most quarter turns.")
        .at_least(1)
        .random();
  }

  void process(Firing& f) override {
    Random random = f.random();
    const int k = static_cast<int>(random.integer(static_cast<std::uint64_t>(p.max_k))) + 1;
    if (!random.chance(p.prob)) return pass(f);
    turn_with_boxes(f, p, k, "rand_rotate_box90");
  }
};

const Register<RandRotateBox90> registered;

}  // namespace
}  // namespace sluice
