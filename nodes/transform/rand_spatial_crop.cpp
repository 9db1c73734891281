// rand_spatial_crop: MONAI's RandSpatialCropd. One box for all keys.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct RandSpatialCrop final : FusedNode {
  struct Params : RandCropParams {
    std::vector<std::int64_t> roi_size;
    std::optional<std::vector<std::int64_t>> max_roi_size;
  } p;

  static Spec spec() {
    Spec s("rand_spatial_crop", "Crops all keys at one random place, or to a random size.");
    return add_rand_crop_params(add_crop_params(s))
        .param("roi_size", &Params::roi_size,
               "Voxels: one number, or one an axis; 0 or less, or more than there are: the axis.")
        .required()
        .param("max_roi_size", &Params::max_roi_size,
               "With random_size: the largest size; null: the image's.")
        .resizes("@keys", "roi_size")
        .unless("random_size", true)
        .resizes("@keys")
        .when("random_size", true);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    crop_alike(out, p, "rand_spatial_crop", [&](const Shape3& shape, std::int64_t axes) {
      return random_box(random, p, p.roi_size, p.max_roi_size, shape, axes);
    });
    finish(f, std::move(out));
  }
};

const Register<RandSpatialCrop> registered;

}  // namespace
}  // namespace sluice
