// reg_resnet: the Model Zoo's RegResNet (bundle mednist_reg), MONAI's ResNet-18 before its
// AffineHead: how one image has to be turned, zoomed and moved to lie on another.
//
//   moving, fixed ─ ResNet-18 ─ linear ─ an affine transform's displacements
//   moving ──────────────────────────────────────────────┴─ warp ─▶ the moved image
#include "kernels/image/warp.h"
#include "nodes/network/affine_head.h"
#include "nodes/network/resnet_params.h"

namespace sluice {
namespace {

struct RegResNet final : ImageNetwork<RegResNet> {
  struct Params : ImageNet {
    std::vector<std::int64_t> image_size{64, 64};
    std::int64_t features = 400;
    std::string mode = "bilinear", padding_mode = "border";
    Params() {
      spatial_dims = 2;
      out_channels = 1;
    }
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "reg_resnet",
        "Affine registration on a ResNet-18 (RegResNet of the Model Zoo's mednist_reg). Its input "
        "has two channels, the moving and the fixed image. Outputs: the moving one, warped, and "
        "the displacements in voxels.",
        false, "Of the moved image: 1.");
    leave_out(s, {"in_channels"});
    declared(s, "out_channels").max = 1;
    return s.param("image_size", &Params::image_size, "Extents of the images.")
        .at_least(1)
        .param("features", &Params::features, "Numbers between the ResNet and the transform.")
        .at_least(1)
        .param("mode", &Params::mode, "Between the moving image's voxels.")
        .choices({"bilinear", "nearest"})
        .param("padding_mode", &Params::padding_mode,
               "What lies outside of it: the nearest voxel, or 0.")
        .choices({"border", "zeros"});
  }

  std::vector<NetInput> inputs() const { return {{.channels = 2}}; }

  Values build(const Scope& s, const Values& both) const {
    const Value& image = both[0];
    require_per_axis("image_size", p.image_size.size(), image.axes);
    const Scope net = s / "features";
    const Value features = linear(
        net / "fc",
        global_avg_pool(resnet_features(net, image, resnet_options(ResNetBackbone{}, 18)).back()),
        p.features, {.bias_init = Init::fill(0)});
    const Value by = affine_head(s / "affine_head", features, p.image_size);
    const auto outside =
        p.padding_mode == "border" ? kernels::Outside::border : kernels::Outside::zeros;
    const auto moved = [outside, nearest = p.mode == "nearest"](In t) {
      const at::Tensor moving = t[0].narrow(1, 0, 1).contiguous();
      return nearest ? torch_warp(moving, t[1], true, outside) : warp(moving, t[1], outside);
    };
    return {image.op("warp", moved, {.with = {by}, .channels = 1}), by};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "image_size", p.image_size);
  }
};

const RegisterNetwork<RegResNet> registered;

}  // namespace
}  // namespace sluice
