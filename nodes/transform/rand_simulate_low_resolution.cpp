// rand_simulate_low_resolution: MONAI's RandSimulateLowResolutiond, nnU-Net's
// SimulateLowResolutionTransform (Isensee et al. 2021). A zoom of its own for each key.
#include <cmath>

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandSimulateLowResolution final : FusedNode {
  struct Params : RandIntensityParams {
    std::string downsample_mode = "nearest", upsample_mode = "trilinear";
    std::vector<double> zoom_range{0.5, 1.0};
    bool align_corners = false;
  } p;

  static Spec spec() {
    Spec s("rand_simulate_low_resolution",
           "Resizes to fewer voxels and back, as if the image had been taken at a lower "
           "resolution.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to change, [C, X, Y] or [C, X, Y, Z]; they become float32.")
        .param("downsample_mode", &Params::downsample_mode, "How voxels become fewer.")
        .choices(resizing_names)
        .on_device({"nearest"})
        .param("upsample_mode", &Params::upsample_mode, "How they become as many again.")
        .choices(resizing_names)
        .on_device({"linear", "bilinear", "trilinear"})
        .param("zoom_range", &Params::zoom_range,
               "[low, high]: factor of the number of voxels along each axis, drawn for each key.")
        .length(2, 2)
        .above(0)
        .param("align_corners", &Params::align_corners,
               "Linear and cubic modes: the outer voxels' centres stay.");
    return add_rand_intensity_params(s, 2).fuses(Fuses::values).any_device();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    down_ = parse_resizing(p.downsample_mode);
    up_ = parse_resizing(p.upsample_mode);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t) {
                       append(field,
                              lowered(shape, fewer(shape, axes, draw(random, p.zoom_range))));
                     });
    finish(f, std::move(out));
  }

 private:
  // Rounded as numpy does, halves to even; MONAI keeps a voxel at least.
  static Shape3 fewer(Shape3 shape, std::int64_t axes, double zoom) {
    for (std::int64_t d = 0; d < axes; ++d)
      shape[d] = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(std::nearbyint(static_cast<double>(shape[d]) * zoom)));
    return shape;
  }

  PendingStep lowered(const Shape3& shape, const Shape3& few) const {
    kernels::AugmentOp op{kernels::AugmentKind::low_resolution};
    for (int d = 0; d < 3; ++d) op.a[d] = static_cast<float>(few[d]);
    PendingStep step = filtered({op}, [=, *this](const at::Tensor& from, const at::Tensor& into) {
      const at::Tensor down = resize(from.to(at::kFloat), few, down_, p.align_corners);
      const at::Tensor up = resize(down, shape, up_, p.align_corners);
      return into.defined() ? into.copy_(up) : up;
    });
    if (down_ != Resizing::nearest || up_ != Resizing::linear || p.align_corners)
      step.limited = "a low resolution other than by nearest down and linearly up";
    return step;
  }

  Resizing down_ = Resizing::nearest, up_ = Resizing::linear;
};

const Register<RandSimulateLowResolution> registered;

}  // namespace
}  // namespace sluice
