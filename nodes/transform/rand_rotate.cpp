// rand_rotate: MONAI's RandRotated. One draw for all keys.
#include "nodes/transform/turning.h"

namespace sluice {
namespace {

struct RandRotate final : FusedNode {
  struct Params : TurnParams {
    std::vector<double> range_x{0}, range_y{0}, range_z{0};
    double prob = 0.1;
  } p;

  static Spec spec() {
    Spec s("rand_rotate", "Turns all keys about their centre by randomly drawn angles.");
    add_image_keys<Params>(s, "turn")
        .param("range_x", &Params::range_x,
               "Radians about x (in the plane of a 2-D image): r for -r..r, or [low, high].")
        .length(1, 2)
        .param("range_y", &Params::range_y, "Radians about y, the same forms; 3-D only.")
        .length(1, 2)
        .param("range_z", &Params::range_z, "Radians about z, the same forms; 3-D only.")
        .length(1, 2)
        .param("prob", &Params::prob, "Probability of a rotation.")
        .range(0, 1)
        .random();
    return add_turn_params(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    std::vector<double> angles;
    for (const auto* range : {&p.range_x, &p.range_y, &p.range_z})
      angles.push_back(draw(random, *range));
    Sample out = f.in();
    turn(out, p, "rand_rotate", angles);
    finish(f, std::move(out));
  }
};

const Register<RandRotate> registered;

}  // namespace
}  // namespace sluice
