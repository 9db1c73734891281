// affine_box_to_image_coordinate: MONAI's AffineBoxToImageCoordinated.
#include "nodes/transform/affine_boxes.h"

namespace sluice {
namespace {

struct AffineBoxToImageCoordinate final : AffineBoxNode {
  static Spec spec() {
    return affine_box_spec("affine_box_to_image_coordinate",
                           "Boxes of the world, in mm, become boxes in voxels of an image.");
  }

  Affine map_of(const Affine& affine) const override { return inverse(affine); }
};

const Register<AffineBoxToImageCoordinate> registered;

}  // namespace
}  // namespace sluice
