// center_spatial_crop: MONAI's CenterSpatialCropd.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct CenterSpatialCrop final : FusedNode {
  struct Params : CropParams {
    std::vector<std::int64_t> roi_size;
  } p;

  static Spec spec() {
    Spec s("center_spatial_crop", "Crops to the middle of each key.");
    return add_crop_params(s)
        .param("roi_size", &Params::roi_size,
               "Voxels: one number, or one an axis; 0 or less, or more than there are: the axis.")
        .required()
        .crops("@keys", "roi_size");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    crop(out, p, "center_spatial_crop", [this](const Shape3& shape, std::int64_t axes) {
      return box_at_centre(shape, fall_back(p.roi_size, shape, axes));
    });
    finish(f, std::move(out));
  }
};

const Register<CenterSpatialCrop> registered;

}  // namespace
}  // namespace sluice
