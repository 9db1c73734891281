// affine_box_to_world_coordinate: MONAI's AffineBoxToWorldCoordinated.
#include "nodes/transform/affine_boxes.h"

namespace sluice {
namespace {

struct AffineBoxToWorldCoordinate final : AffineBoxNode {
  static Spec spec() {
    return affine_box_spec("affine_box_to_world_coordinate",
                           "Boxes in voxels of an image become boxes of the world, in mm.");
  }

  Affine map_of(const Affine& affine) const override { return affine; }
};

const Register<AffineBoxToWorldCoordinate> registered;

}  // namespace
}  // namespace sluice
