// segresnet_ds, segresnet_ds2: MONAI's SegResNetDS and SegResNetDS2 (monai.networks.nets 1.6.1)
// with their parameter names and defaults, without `preprocess`. Myronenko 2018; the second has the
// way up twice, as VISTA3D's encoder of images (He et al. 2024).
//
//   x ─ conv_init ─ blocks ─────────────────────────────── + ─ blocks ─ head ─▶ logits
//                     └─ stride 2 ─ blocks ──── + ─ blocks ─ up ─┘   └ ... head ─▶ deep supervision
//                                     └─ ... ─ up ─┘
#include <algorithm>
#include <cmath>

#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

template <bool twice>
struct SegResNetDs final : ImageNetwork<SegResNetDs<twice>> {
  struct Params : ImageNet {
    std::int64_t init_filters = 32;
    Json act = "relu", norm = "batch";
    Sizes blocks_down{1, 2, 2, 4};
    std::optional<Sizes> blocks_up;
    std::int64_t dsdepth = 1;
    std::string upsample_mode = "deconv";
    std::optional<std::vector<double>> resolution;
  } p;

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
        .param("act", &Params::act, "As in MONAI: a name, or [name, {arguments}].")
        .param("norm", &Params::norm, "The same.")
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
    const std::size_t levels = p.blocks_down.size();
    const Sizes blocks_up = p.blocks_up.value_or(Sizes(levels - 1, 1));
    if (blocks_up.size() + 1 != levels)
      this->refuse("blocks_up needs one entry fewer than blocks_down");
    if (p.resolution && p.resolution->size() != static_cast<std::size_t>(image.axes))
      this->refuse("resolution needs a number for each axis");
    const auto all = scales();
    const Scope encoder = s / "encoder";
    Value x = bare(encoder / "conv_init", image, p.init_filters, all[0], 1);
    Values skips;
    for (std::size_t i = 0; i < levels; ++i) {
      const Scope level = encoder / "layers" / static_cast<std::int64_t>(i);
      if (i > 0)
        x = bare(encoder / "layers" / static_cast<std::int64_t>(i - 1) / "downsample", x,
                 2 * x.channels, all[i - 1], all[i - 1]);
      for (std::int64_t b = 0; b < p.blocks_down[i]; ++b)
        x = block(level / "blocks" / b, x, all[i]);
      skips.push_back(x);
    }
    Values outputs = way_up(s / "up_layers", x, skips, blocks_up);
    if (twice)
      for (const Value& y : way_up(s / "up_layers_auto", x, skips, blocks_up)) outputs.push_back(y);
    return outputs;
  }

 private:
  // Of the levels that have one, the finest first.
  Values way_up(const Scope& s, Value x, const Values& skips, const Sizes& blocks_up) const {
    const std::size_t levels = skips.size();
    const auto all = scales();
    Values outputs;
    if (levels == 1) outputs = {head(s / 0, x)};
    for (std::size_t i = 0; i + 1 < levels; ++i) {
      const Scope level = s / static_cast<std::int64_t>(i);
      const Sizes& scale = all[levels - 2 - i];
      UpSampleOptions up{.scale_factor = scale, .kernel_size = kernel(scale)};
      up.mode = p.upsample_mode;
      up.align_corners = up.bias = false;
      x = upsample(level / "upsample", x, x.channels / 2, up) + skips[levels - 2 - i];
      for (std::int64_t b = 0; b < blocks_up[i]; ++b) x = block(level / "blocks" / b, x, scale);
      if (static_cast<std::int64_t>(levels - 1 - i) <= p.dsdepth)
        outputs.insert(outputs.begin(), head(level, x));
    }
    return outputs;
  }

  // The factor of each level's downsampling, by axis: a coarse axis waits until others are as
  // coarse.
  std::vector<Sizes> scales() const {
    const auto axes = static_cast<std::size_t>(p.spatial_dims);
    std::vector<Sizes> all(p.blocks_down.size(), Sizes(axes, 2));
    if (!p.resolution) return all;
    const double coarsest = *std::max_element(p.resolution->begin(), p.resolution->end());
    std::vector<std::size_t> halvings;  // of each axis, until all are alike
    for (const double r : *p.resolution)
      halvings.push_back(static_cast<std::size_t>(std::log2(coarsest / r)));
    const std::size_t most = *std::max_element(halvings.begin(), halvings.end());
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
      for (std::size_t a = 0; a < axes; ++a) all[i][a] = i < halvings[a] ? 2 : 1;
    return all;
  }
  static Sizes kernel(const Sizes& scale) {
    Sizes k = scale;
    for (auto& n : k) n = n > 1 ? 3 : 1;
    return k;
  }
  static Value bare(const Scope& s, const Value& x, std::int64_t out, const Sizes& scale,
                    const PerAxis& stride) {
    return conv(s, x, out, {.kernel = kernel(scale), .stride = stride, .bias = false});
  }
  Value active(const Scope& s, const Value& x) const {
    NormOptions n = norm_of(p.norm);
    if (p.norm.is_string() || !p.norm.at(1).contains("affine")) n.affine = true;
    return act(s, norm(s, x, n), act_of(p.act));
  }
  Value block(const Scope& s, const Value& x, const Sizes& scale) const {
    const Value y = bare(s / "conv1", active(s / "norm1", x), x.channels, scale, 1);
    return bare(s / "conv2", active(s / "norm2", y), x.channels, scale, 1) + x;
  }
  Value head(const Scope& s, const Value& x) const {
    return conv(s / "head", x, p.out_channels, {.kernel = 1});
  }

  std::string unfit(at::IntArrayRef extents) const override {
    const auto all = scales();
    for (std::size_t a = 0; a < extents.size(); ++a) {
      std::int64_t step = 1;
      for (std::size_t i = 0; i + 1 < all.size(); ++i) step *= all[i][a];
      if (extents[a] % step != 0)
        return "takes extents that are multiples of " + std::to_string(step) + " along axis " +
               std::to_string(a) + ", got " + c10::str(extents);
    }
    return "";
  }
};

const RegisterNetwork<SegResNetDs<false>> registered;
const RegisterNetwork<SegResNetDs<true>> registered_twice;

}  // namespace
}  // namespace sluice
