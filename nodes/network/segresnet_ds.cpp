// segresnet_ds, segresnet_ds2: MONAI's SegResNetDS and SegResNetDS2 (monai.networks.nets 1.6.1)
// with their parameter names and defaults, without `preprocess`. Myronenko 2018; the second has the
// way up twice, as VISTA3D's encoder of images (He et al. 2024).
#include "nodes/network/segresnet_ds_parts.h"

#include "kernels/net/up.h"

namespace sluice {
namespace {

template <bool twice>
struct SegResNetDs final : ImageNetwork<SegResNetDs<twice>> {
  using Params = SegResDsParams;
  Params p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    return image_net<Params>(
               twice ? "segresnet_ds2" : "segresnet_ds",
               twice ? "SegResNet with deep supervision and two ways up (MONAI's SegResNetDS2): "
                       "first the outputs of the point branch, then those of the label branch."
                     : "SegResNet with deep supervision and kernels that follow the resolution "
                       "(MONAI's SegResNetDS).",
               false)
        .param("init_filters", &Params::init_filters,
               "Channels of the first level, doubled by each.")
        .at_least(1)
        .param("act", &Params::act, monai_name_doc)
        .choices(act_names())
        .param("norm", &Params::norm, "The same.")
        .choices(norm_names())
        .param("blocks_down", &Params::blocks_down, "Residual blocks of every level, top first.")
        .at_least(1)
        .length(1)
        .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first; null: 1 each.")
        .at_least(1)
        .param("dsdepth", &Params::dsdepth,
               "Levels that have an output, the finest first: name them in the model node's "
               "output_keys.")
        .at_least(1)
        .param("upsample_mode", &Params::upsample_mode, "How extents are doubled.")
        .choices(upsample_modes())
        .param("resolution", &Params::resolution,
               "Of the images, one number an axis: coarse axes are halved later; null: all alike.")
        .above(0);
  }

  Values build(const Scope& s, const Value& image) const {
    const SegResDs net{p};
    const Values skips = net.way_down(s / "encoder", image);
    Values outputs = net.way_up(s / "up_layers", skips);
    if (twice)
      for (const Value& y : net.way_up(s / "up_layers_auto", skips)) outputs.push_back(y);
    return outputs;
  }

  std::string unfit(at::IntArrayRef extents) const override { return SegResDs{p}.unfit(extents); }
};

const RegisterNetwork<SegResNetDs<false>> registered;
const RegisterNetwork<SegResNetDs<true>> registered_twice;

}  // namespace
}  // namespace sluice
