// resize_with_pad_or_crop: MONAI's ResizeWithPadOrCropd. A centre crop, then a pad.
#include "nodes/transform/padding.h"

namespace sluice {
namespace {

struct ResizeWithPadOrCrop final : FusedNode {
  struct Params : PadParams {
    std::vector<std::int64_t> spatial_size;
  } p;

  static Spec spec() {
    Spec s("resize_with_pad_or_crop", "Crops or pads every axis about its centre to a size.");
    add_image_keys<Params>(s, "fit", 1)
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less leaves an axis.")
        .required();
    return add_pad_params(s).resizes("@keys", "spatial_size");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    pad(out, p, "resize_with_pad_or_crop", [this](const Shape3& shape, std::int64_t axes) {
      return fall_back(p.spatial_size, shape, axes);
    });
    finish(f, std::move(out));
  }
};

const Register<ResizeWithPadOrCrop> registered;

}  // namespace
}  // namespace sluice
