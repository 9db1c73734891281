// convert_box_mode: MONAI's ConvertBoxModed.
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct ConvertBoxMode final : Node {
  struct Params : BoxParams {
    std::optional<std::string> src_mode, dst_mode;
  } p;

  static Spec spec() {
    return box_spec<Params>("convert_box_mode", "Writes boxes in another order of numbers.",
                            "Boxes [N, 4] or [N, 6].")
        .param("src_mode", &Params::src_mode, "Their mode; null: xyxy or xyzxyz.")
        .choices(box_modes)
        .param("dst_mode", &Params::dst_mode, "The new one; null: xyxy or xyzxyz.")
        .choices(box_modes);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_boxes(out, p, [&](const at::Tensor& boxes, std::int64_t) {
      const at::Tensor standard = p.src_mode ? to_standard_boxes(boxes, *p.src_mode) : boxes;
      return p.dst_mode ? from_standard_boxes(standard, *p.dst_mode) : standard;
    });
    f.emit(std::move(out));
  }
};

const Register<ConvertBoxMode> registered;

}  // namespace
}  // namespace sluice
