// convert_points_to_boxes: MONAI's ConvertPointsToBoxesd.
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct ConvertPointsToBoxes final : Node {
  struct Params : KeyParams {
    std::string box_key = "box";
    Params() { keys = {"points"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("convert_points_to_boxes", "The box around points, as a field.",
                                 "Points [N, P, 2] or [N, P, 3].")
        .param("box_key", &Params::box_key, "Field for the boxes, [N, 4] or [N, 6].")
        .takes("@keys", Form::any, 0)
        .gives("@box_key", Form::any);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& t = field.tensor;
      if (t.dim() != 3 || t.size(1) == 0 || (t.size(2) != 2 && t.size(2) != 3))
        throw shape_error(p.keys[i], t, "; needed is [N, P, 2] or [N, P, 3]");
      out.set(p.box_key, Field(boxes_around(t), field.meta));
    });
    f.emit(std::move(out));
  }
};

const Register<ConvertPointsToBoxes> registered;

}  // namespace
}  // namespace sluice
