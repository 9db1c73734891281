// flexible_unet: MONAI's FlexibleUNet (monai.networks.nets.FlexibleUNet 1.6.1) on an EfficientNet
// or a ResNet, without pretrained weights, with its parameter names and defaults.
//
//   x ─ encoder ─ five features, each of half the extents of the one before ─ last ─ up + fourth ─
//     up + third ─ ... ─ up to the extents of x ─ conv 3 ─▶ logits
#include "kernels/net/efficientnet.h"
#include "kernels/net/resnet.h"
#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct FlexibleUNet final : ImageNetwork<FlexibleUNet> {
  struct Params : ImageNet {
    std::string backbone;
    std::vector<std::int64_t> decoder_channels{256, 128, 64, 32, 16};
    std::optional<Json> norm = Json::array({"batch", {{"eps", 1e-3}, {"momentum", 0.1}}});
    std::optional<Json> act = Json::array({"relu", {{"inplace", true}}});
    double dropout = 0;
    bool decoder_bias = false, is_pad = true;
    std::string upsample = "nontrainable", interp_mode = "nearest";
    std::optional<std::string> pre_conv = "default";
    Params() { spatial_dims = 2; }
  } p;

  static Spec spec() {
    Spec s = image_net<Params>("flexible_unet",
                               "U-Net on the features of a network of classes (MONAI's "
                               "FlexibleUNet).");
    declared(s, "spatial_dims").required = false;
    return s.param("backbone", &Params::backbone, "Which network.")
        .choices(backbones())
        .required()
        .param("decoder_channels", &Params::decoder_channels, "On the way up, bottom first.")
        .at_least(1)
        .length(5)
        .param("norm", &Params::norm,
               "On the way up, as in MONAI: a name, or [name, {arguments}]; null: none.")
        .choices(norm_names())
        .param("act", &Params::act, "The same.")
        .choices(act_names())
        .param("dropout", &Params::dropout, dropout_doc)
        .range(0, 0.99)
        .param("decoder_bias", &Params::decoder_bias, "Convolutions on the way up have a bias.")
        .param("upsample", &Params::upsample, "How extents are doubled.")
        .choices(upsample_modes())
        .param("pre_conv", &Params::pre_conv, "A convolution before it; null: none.")
        .choices({"default"})
        .param("interp_mode", &Params::interp_mode, "Of nontrainable.")
        .choices({"nearest", "linear", "bilinear", "trilinear"})
        .param("is_pad", &Params::is_pad, "What does not fit its skip is padded.");
  }

  Values build(const Scope& s, const Value& image) const {
    const Values f = features(s / "encoder", image);
    UpCatOptions o{.adn = adn(), .bias = p.decoder_bias, .is_pad = p.is_pad};
    o.up.mode = p.upsample;
    o.up.pre_conv = p.pre_conv.has_value();
    o.up.interp_mode = p.interp_mode == "nearest" ? "nearest" : "linear";
    o.up.align_corners = false;
    const Value x = unet_decoder(s / "decoder", f, p.decoder_channels, o);
    return {conv(s / "segmentation_head.0", x, p.out_channels, {.kernel = 3})};
  }

  static std::vector<std::string> backbones() {
    std::vector<std::string> all = efficientnet_names();
    for (const int layers : resnet_layers()) all.push_back("resnet" + std::to_string(layers));
    return all;
  }
  // A ResNet is made as its pretrained weights are.
  Values features(const Scope& s, const Value& image) const {
    if (!p.backbone.starts_with("resnet"))
      return efficientnet(s, image, p.backbone, 1000, {.eps = 1e-3, .momentum = 0.01}).features;
    const int layers = std::stoi(p.backbone.substr(6));
    const bool zeros = layers == 18 || layers == 34;
    return resnet_features(s, image,
                           {.kind = resnet_kind(layers),
                            .conv1_stride = 2,
                            .shortcut_a = zeros,
                            .bias_downsample = zeros});
  }

  Adn adn() const {
    return {.norm = norm_or_none(p.norm), .act = act_or_none(p.act), .dropout = p.dropout};
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, p.is_pad ? 2 : 32);
  }
};

const RegisterNetwork<FlexibleUNet> registered;

}  // namespace
}  // namespace sluice
