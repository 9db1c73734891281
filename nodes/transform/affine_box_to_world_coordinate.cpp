// affine_box_to_world_coordinate: MONAI's AffineBoxToWorldCoordinated.
#include "nodes/transform/affine_boxes.h"

namespace sluice {
namespace {

struct AffineBoxToWorldCoordinate final : Node {
  using Params = AffineBoxParams;
  Params p;

  static Spec spec() {
    return affine_box_spec("affine_box_to_world_coordinate",
                           "Boxes in voxels of an image become boxes of the world, in mm.");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    move_boxes(out, p, [](const Affine& affine) { return affine; });
    f.emit(std::move(out));
  }
};

const Register<AffineBoxToWorldCoordinate> registered;

}  // namespace
}  // namespace sluice
