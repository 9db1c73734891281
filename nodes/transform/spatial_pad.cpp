// spatial_pad: MONAI's SpatialPadd. Pads to at least the given size; larger axes stay.
#include "nodes/transform/padding.h"

namespace sluice {
namespace {

struct SpatialPad final : FusedNode {
  struct Params : PadParams {
    std::vector<std::int64_t> spatial_size;
  } p;

  static Spec spec() {
    Spec s("spatial_pad", "Pads every axis to at least the given size.");
    add_image_keys<Params>(s, "pad", 1)
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less leaves an axis.")
        .required();
    return add_pad_params(s).pads("@keys", "spatial_size");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    pad(out, p, "spatial_pad", [this](const Shape3& shape, std::int64_t axes) {
      Shape3 size = fall_back(p.spatial_size, shape, axes);
      for (int d = 0; d < 3; ++d) size[d] = std::max(size[d], shape[d]);
      return size;
    });
    finish(f, std::move(out));
  }
};

const Register<SpatialPad> registered;

}  // namespace
}  // namespace sluice
