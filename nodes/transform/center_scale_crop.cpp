// center_scale_crop: MONAI's CenterScaleCropd.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct CenterScaleCrop final : FusedNode {
  struct Params : CropParams {
    std::vector<double> roi_scale;
  } p;

  static Spec spec() {
    Spec s("center_scale_crop", "Crops to a share of each axis, in the middle.");
    return add_crop_params(s)
        .param("roi_scale", &Params::roi_scale,
               "Share of the axis, rounded up: one number, or one an axis.")
        .required()
        .length(1, 3)
        .per_axis("@keys", "roi_scale")
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    crop(out, p, "center_scale_crop", [this](const Shape3& shape, std::int64_t axes) {
      return box_at_centre(shape,
                           fall_back(scaled(p.roi_scale, shape, axes, "roi_scale"), shape, axes));
    });
    finish(f, std::move(out));
  }
};

const Register<CenterScaleCrop> registered;

}  // namespace
}  // namespace sluice
