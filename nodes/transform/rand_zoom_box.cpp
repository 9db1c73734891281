// rand_zoom_box: MONAI's RandZoomBoxd. One draw for all keys.
#include <cmath>
#include <optional>

#include "nodes/transform/image_boxes.h"
#include "nodes/transform/zooming.h"

namespace sluice {
namespace {

struct RandZoomBox final : FusedNode {
  struct Params : RandZoomParams {
    std::vector<std::string> box_keys{"box"}, box_ref_image_keys{"image"};
    Params() { keys = {"image"}; }
  } p;

  static Spec spec() {
    Spec s = image_box_spec<Params>("rand_zoom_box",
                                    "Magnifies images about their centre, and the boxes in them.");
    add_rand_zoom_params<Params>(s);
    return add_resizing_params(s, "image_keys").resizes("@image_keys").unless("keep_size", true);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const std::vector<double> drawn = drawn_factors(random, p);
    Sample out = f.in();
    // To whole voxels of the first image that boxes lie in, as MONAI has it for all.
    std::optional<Vec3> common;
    for_each_key(out, p.box_keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const std::int64_t axes = box_axes(field.tensor, p.box_keys[i]);
      const Shape3 shape = shape_of(image_of_boxes(f.in(), per_key(p.box_ref_image_keys, i), axes));
      if (!common) common = factors_of_axes(drawn, axes);
      Vec3& factors = *common;
      Shape3 size = shape;
      for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
        size[d] =
            static_cast<std::int64_t>(std::nearbyint(factors[d] * static_cast<double>(shape[d])));
        factors[d] = static_cast<double>(size[d]) / static_cast<double>(shape[d]);
      }
      field.tensor = moved(field.tensor, axes, shape, size, factors);
    });
    zoom(out, p, "rand_zoom_box",
         [&](std::int64_t axes) { return common ? *common : factors_of_axes(drawn, axes); });
    finish(f, std::move(out));
  }

 private:
  // As the image is resized, and then cropped or filled about its centre.
  at::Tensor moved(const at::Tensor& boxes, std::int64_t axes, const Shape3& shape,
                   const Shape3& size, const Vec3& factors) const {
    std::vector<float> scale, shift;
    for (std::int64_t n = 0; n < 2 * axes; ++n) {
      const auto d = static_cast<std::size_t>(n % axes);
      const std::int64_t missing = shape[d] - size[d];
      const std::int64_t half = std::abs(missing) / 2 * (missing > 0 ? 1 : -1);
      scale.push_back(static_cast<float>(factors[d]));
      shift.push_back(p.keep_size ? static_cast<float>(half) : 0.0f);
    }
    return boxes.to(at::kFloat)
        .mul(at::tensor(scale))
        .add(at::tensor(shift))
        .to(boxes.scalar_type());
  }
};

const Register<RandZoomBox> registered;

}  // namespace
}  // namespace sluice
