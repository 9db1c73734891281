// rotate: MONAI's Rotated.
#include "nodes/transform/turning.h"

namespace sluice {
namespace {

struct Rotate final : FusedNode {
  struct Params : TurnParams {
    std::vector<double> angle;
  } p;

  static Spec spec() {
    Spec s("rotate", "Turns all keys about their centre by given angles.");
    add_image_keys<Params>(s, "turn")
        .param("angle", &Params::angle,
               "Radians about x, y and z; one for images of two axes, or for all three.")
        .required()
        .length(1, 3);
    return add_turn_params(s).per_axis("@keys", "angle");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_image(out, p.keys, p.allow_missing_keys, [&](const std::string&, const Field& field) {
      require_one_an_axis(p.angle.size(), "angle", field.tensor.dim() == 3 ? 1 : 3);
    });
    turn(out, p, "rotate", {per_key(p.angle, 0), per_key(p.angle, 1), per_key(p.angle, 2)});
    finish(f, std::move(out));
  }
};

const Register<Rotate> registered;

}  // namespace
}  // namespace sluice
