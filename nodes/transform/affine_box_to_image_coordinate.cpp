// affine_box_to_image_coordinate: MONAI's AffineBoxToImageCoordinated.
#include "nodes/transform/affine_boxes.h"

namespace sluice {
namespace {

struct AffineBoxToImageCoordinate final : Node {
  using Params = AffineBoxParams;
  Params p;

  static Spec spec() {
    return affine_box_spec("affine_box_to_image_coordinate",
                           "Boxes of the world, in mm, become boxes in voxels of an image.");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    move_boxes(out, p, [](const Affine& affine) { return inverse(affine); });
    f.emit(std::move(out));
  }
};

const Register<AffineBoxToImageCoordinate> registered;

}  // namespace
}  // namespace sluice
