// rand_spatial_crop_samples: MONAI's RandSpatialCropSamplesd. One box a patch for all keys.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct RandSpatialCropSamples final : FusedNode {
  struct Params : RandCropParams {
    std::vector<std::int64_t> roi_size;
    std::int64_t num_samples = 1;
    std::optional<std::vector<std::int64_t>> max_roi_size;
  } p;

  static Spec spec() {
    Spec s("rand_spatial_crop_samples", "Crops num_samples patches at random places.");
    return add_rand_crop_params(add_crop_params(s))
        .param("roi_size", &Params::roi_size,
               "Voxels: one number, or one an axis; 0 or less, or more than there are: the axis.")
        .required()
        .param("num_samples", &Params::num_samples, "Patches a sample.")
        .required()
        .at_least(1)
        .param("max_roi_size", &Params::max_roi_size,
               "With random_size: the largest size; null: the image's.")
        .expands("num_samples")
        .resizes("@keys", "roi_size")
        .unless("random_size", true)
        .resizes("@keys")
        .when("random_size", true);
  }

  void process(Firing& f) override {
    Random random = f.random();
    for (std::int64_t i = 0; i < p.num_samples; ++i) {
      Sample out = f.in();
      crop_alike(out, p, "rand_spatial_crop_samples", [&](const Shape3& shape, std::int64_t axes) {
        return random_box(random, p, p.roi_size, p.max_roi_size, shape, axes);
      });
      finish(f, std::move(out));
    }
  }
};

const Register<RandSpatialCropSamples> registered;

}  // namespace
}  // namespace sluice
