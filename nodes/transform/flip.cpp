// flip: MONAI's Flipd.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct Flip final : FusedNode {
  struct Params : CropParams {
    std::optional<std::vector<std::int64_t>> spatial_axis;
  } p;

  static Spec spec() {
    Spec s("flip", "Flips along spatial axes.");
    return add_crop_params(s)
        .param("spatial_axis", &Params::spatial_axis, "Spatial axes, 0 = X; null: all of them.")
        .range(-3, 2)
        .rearranging()
        .axes("@keys", "spatial_axis");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
                       Reorder r;
                       for (std::int64_t d = 0; d < axes; ++d) r.flip[d] = !p.spatial_axis;
                       if (p.spatial_axis)
                         for (const std::int64_t a : *p.spatial_axis)
                           r.flip[spatial_axis(a, axes)] = true;
                       record(field, reordered(r), "flip", {r.flip.begin(), r.flip.end()});
                     });
    finish(f, std::move(out));
  }
};

const Register<Flip> registered;

}  // namespace
}  // namespace sluice
