// rand_scale_crop: MONAI's RandScaleCropd. One box for all keys.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct RandScaleCrop final : FusedNode {
  struct Params : RandCropParams {
    std::vector<double> roi_scale;
    std::optional<std::vector<double>> max_roi_scale;
  } p;

  static Spec spec() {
    Spec s("rand_scale_crop", "Crops all keys to a share of each axis at one random place.");
    return add_rand_crop_params(add_crop_params(s))
        .param("roi_scale", &Params::roi_scale,
               "Share of the axis, rounded up: one number, or one an axis.")
        .required()
        .length(1, 3)
        .param("max_roi_scale", &Params::max_roi_scale,
               "With random_size: the largest share; null: all of it.")
        .per_axis("@keys", "roi_scale")
        .per_axis("@keys", "max_roi_scale")
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    crop_alike(out, p, "rand_scale_crop", [&](const Shape3& shape, std::int64_t axes) {
      std::optional<std::vector<std::int64_t>> most;
      if (p.max_roi_scale) most = scaled(*p.max_roi_scale, shape, axes, "max_roi_scale");
      return random_box(random, p, scaled(p.roi_scale, shape, axes, "roi_scale"), most, shape,
                        axes);
    });
    finish(f, std::move(out));
  }
};

const Register<RandScaleCrop> registered;

}  // namespace
}  // namespace sluice
