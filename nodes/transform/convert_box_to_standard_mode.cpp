// convert_box_to_standard_mode: MONAI's ConvertBoxToStandardModed.
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct ConvertBoxToStandardMode final : Node {
  struct Params : BoxParams {
    std::optional<std::string> mode;
  } p;

  static Spec spec() {
    return box_spec<Params>("convert_box_to_standard_mode",
                            "Writes boxes as all least corners, then all largest.",
                            "Boxes [N, 4] or [N, 6].")
        .param("mode", &Params::mode, "Their mode; null: that already.")
        .choices(box_modes);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_boxes(out, p, [&](const at::Tensor& boxes, std::int64_t) {
      return p.mode ? to_standard_boxes(boxes, *p.mode) : boxes;
    });
    f.emit(std::move(out));
  }
};

const Register<ConvertBoxToStandardMode> registered;

}  // namespace
}  // namespace sluice
