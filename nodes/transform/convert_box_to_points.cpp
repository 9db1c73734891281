// convert_box_to_points: MONAI's ConvertBoxToPointsd.
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct ConvertBoxToPoints final : Node {
  struct Params : KeyParams {
    std::string point_key = "points";
    std::optional<std::string> mode;
    Params() { keys = {"box"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("convert_box_to_points", "The corners of boxes, as a field.",
                                 "Boxes [N, 4] or [N, 6].")
        .param("point_key", &Params::point_key, "Field for them, [N, 4, 2] or [N, 8, 3].")
        .param("mode", &Params::mode, "The boxes' mode; null: xyxy or xyzxyz.")
        .choices(box_modes)
        .takes("@keys", Form::any, 0)
        .gives("@point_key", Form::any);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      box_axes(field.tensor, p.keys[i]);
      const at::Tensor boxes = p.mode ? to_standard_boxes(field.tensor, *p.mode) : field.tensor;
      out.set(p.point_key, Field(box_corners(boxes), field.meta));
    });
    f.emit(std::move(out));
  }
};

const Register<ConvertBoxToPoints> registered;

}  // namespace
}  // namespace sluice
