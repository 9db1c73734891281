// basic_unet: MONAI's BasicUNet (monai.networks.nets.BasicUNet 1.6.1) with its parameter names and
// defaults. Falk et al. 2019. basic_unet_plus_plus: its BasicUNetPlusPlus. Zhou et al. 2018.
//
//   0 ───────────── 4      node I_J of the nested one reads all of its row before it, and the
//   └ 1 ─────── 3 ─┘       next row's node J - 1, upsampled
//     └── 2 ──┘
#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct BasicParams : ImageNet {
  std::vector<std::int64_t> features{32, 32, 64, 128, 256, 32};
  std::optional<Json> act =
      Json::array({"LeakyReLU", {{"negative_slope", 0.1}, {"inplace", true}}});
  std::optional<Json> norm = Json::array({"instance", {{"affine", true}}});
  bool bias = true;
  double dropout = 0;
  std::string upsample = "deconv";

  Adn adn() const {
    return {.norm = norm_or_none(norm), .act = act_or_none(act), .dropout = dropout};
  }
  Value down(const Scope& s, const Value& x, std::size_t level) const {
    return two_conv(s / "convs", max_pool(x), features[level], adn(), bias);
  }
  Value up(const Scope& s, const Value& x, const Values& skips, std::int64_t out,
           bool halves) const {
    UpCatOptions o{.adn = adn(), .bias = bias, .halves = halves};
    o.up.mode = upsample;
    return up_cat(s, x, skips, out, o);
  }
};

template <class Params>
Spec basic_spec(std::string name, std::string doc) {
  return image_net<Params>(std::move(name), std::move(doc), false)
      .param("features", &Params::features, "Channels of five levels, and of the last block.")
      .at_least(1)
      .length(6, 6)
      .param("act", &Params::act, monai_name_or_none_doc)
      .choices(act_names())
      .param("norm", &Params::norm, "The same.")
      .choices(norm_names())
      .param("bias", &Params::bias, conv_bias_doc)
      .param("dropout", &Params::dropout, dropout_doc)
      .range(0, 0.99)
      .param("upsample", &Params::upsample, "How extents are doubled.")
      .choices(upsample_modes());
}

struct BasicUNet final : ImageNetwork<BasicUNet> {
  using Params = BasicParams;
  Params p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    return basic_spec<Params>("basic_unet",
                              "U-Net of two convolutions a level (MONAI's BasicUNet).");
  }

  Values build(const Scope& s, const Value& image) const {
    Values skips{two_conv(s / "conv_0", image, p.features[0], p.adn(), p.bias)};
    for (std::size_t i = 1; i < 5; ++i)
      skips.push_back(p.down(s / ("down_" + std::to_string(i)), skips.back(), i));
    Value x = skips[4];
    for (std::size_t i = 4; i > 0; --i)
      x = p.up(s / ("upcat_" + std::to_string(i)), x, {skips[i - 1]}, p.features[i > 1 ? i - 1 : 5],
               i > 1);
    return {conv(s / "final_conv", x, p.out_channels, {.kernel = 1})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_at_least(extents, 16);  // halved four times
  }
};

struct BasicUNetPlusPlus final : ImageNetwork<BasicUNetPlusPlus> {
  struct Params : BasicParams {
    bool deep_supervision = false;
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    return basic_spec<Params>("basic_unet_plus_plus", "Nested U-Net (MONAI's BasicUNetPlusPlus).")
        .param("deep_supervision", &Params::deep_supervision,
               "Outputs of the top row's nodes, the shallowest first: name four of them in the "
               "model node's output_keys.");
  }

  Values build(const Scope& s, const Value& image) const {
    std::vector<Values> rows(5);
    const auto named = [&](const char* what, std::size_t i, std::size_t j) {
      return s / (what + std::to_string(i) + "_" + std::to_string(j));
    };
    for (std::size_t i = 0; i < 5; ++i)
      rows[i] = {i == 0 ? two_conv(s / "conv_0_0", image, p.features[0], p.adn(), p.bias)
                        : p.down(named("conv_", i, 0), rows[i - 1][0], i)};
    Values outputs;
    for (std::size_t j = 1; j < 5; ++j) {
      for (std::size_t i = 0; i + j < 5; ++i)
        rows[i].push_back(p.up(named("upcat_", i, j), rows[i + 1][j - 1], rows[i],
                               p.features[i == 0 && j == 4 ? 5 : i], i > 0));
      outputs.push_back(
          conv(named("final_conv_", 0, j), rows[0][j], p.out_channels, {.kernel = 1}));
    }
    return p.deep_supervision ? outputs : Values{outputs.back()};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_at_least(extents, 16);  // halved four times
  }
};

const RegisterNetwork<BasicUNet> registered;
const RegisterNetwork<BasicUNetPlusPlus> registered_plus_plus;

}  // namespace
}  // namespace sluice
