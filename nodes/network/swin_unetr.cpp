// swin_unetr: MONAI's SwinUNETR (monai.networks.nets.SwinUNETR 1.6.1), version 2 too, with its
// parameter names and defaults; its patch_size is 2. Hatamizadeh et al. 2022; He et al. 2023.
//
//   x ─ encoder1 ────────────────────────────────────────── decoder1 ─ 1x1 ─▶ logits
//   └─ patches of 2 ─┬─ normed ─ encoder2 ────── decoder2 ─┘
//                    stage 1 ─┬─ encoder3 ───── decoder3 ─┘
//                             stage 2 ─ ... stage 4 ─ encoder10 ─┘
#include "kernels/net/swin.h"
#include "nodes/network/built_network.h"
#include "nodes/network/unetr_decoder.h"

namespace sluice {
namespace {

struct SwinUnetr final : ImageNetwork<SwinUnetr> {
  struct Params : ImageNet {
    std::vector<std::int64_t> depths{2, 2, 2, 2}, num_heads{3, 6, 12, 24}, window_size{7};
    bool qkv_bias = true;
    double mlp_ratio = 4;
    std::int64_t feature_size = 24;
    Json norm_name = "instance";
    double drop_rate = 0, attn_drop_rate = 0, dropout_path_rate = 0;
    bool normalize = true, patch_norm = false, use_v2 = false;
    std::string downsample = "merging";
  } p;

  static Spec spec() {
    Spec s = image_net<Params>("swin_unetr",
                               "Swin transformer as encoder, convolutional decoder (MONAI's "
                               "SwinUNETR).");
    declared(s, "spatial_dims").required = false;
    return s.param("depths", &Params::depths, "Blocks of every stage, four.")
        .at_least(1)
        .length(4, 4)
        .param("num_heads", &Params::num_heads, "Heads of attention of every stage, four.")
        .at_least(1)
        .length(4, 4)
        .param("window_size", &Params::window_size, "Of attention: a number or one an axis.")
        .at_least(1)
        .param("qkv_bias", &Params::qkv_bias, qkv_bias_doc)
        .param("mlp_ratio", &Params::mlp_ratio, "A perceptron's channels, in those of its tokens.")
        .above(0)
        .param("feature_size", &Params::feature_size, "Channels of the first stage; 12 divides it.")
        .at_least(12)
        .param("norm_name", &Params::norm_name, monai_name_doc)
        .choices(norm_names())
        .param("drop_rate", &Params::drop_rate, "Dropout of tokens.")
        .range(0, 0.99)
        .param("attn_drop_rate", &Params::attn_drop_rate, "Dropout of attention's shares.")
        .range(0, 0.99)
        .param("dropout_path_rate", &Params::dropout_path_rate,
               "Of the last block's additions, for whole samples; from 0 in even steps.")
        .range(0, 0.99)
        .param("normalize", &Params::normalize, "Norms what the stages give to the decoder.")
        .param("patch_norm", &Params::patch_norm, "Norms the embedded patches.")
        .param("downsample", &Params::downsample, "How voxels are merged between stages.")
        .choices({"merging", "mergingv2"})
        .param("use_v2", &Params::use_v2, "A residual block of convolutions before every stage.");
  }

  Values build(const Scope& s, const Value& image) const {
    require_multiples("feature_size", p.feature_size, 12);
    const Values h = encoder(s / "swinViT", image);
    const auto f = p.feature_size;
    const UnetBlockOptions b{.norm = norm_of(p.norm_name), .residual = true};
    const Value e0 = unet_block(s / "encoder1.layer", image, f, b);
    const Value e1 = unet_block(s / "encoder2.layer", h[0], f, b);
    const Value e2 = unet_block(s / "encoder3.layer", h[1], 2 * f, b);
    const Value e3 = unet_block(s / "encoder4.layer", h[2], 4 * f, b);
    const Value d = unet_block(s / "encoder10.layer", h[4], 16 * f, b);
    return {unetr_decoder(s, d, {h[3], e3, e2, e1, e0}, b, p.out_channels)};
  }

 private:
  // The embedded patches and what every stage makes of them.
  Values encoder(const Scope& s, const Value& image) const {
    const Scope embed = s / "patch_embed";
    Value x = conv(embed / "proj", image, p.feature_size, {.kernel = 2, .stride = 2, .padding = 0});
    if (p.patch_norm) x = channel_norm(embed / "norm", x);
    if (p.drop_rate > 0) x = dropout(x, p.drop_rate);
    const auto shown = [&](const Value& y) { return p.normalize ? channel_norm(y) : y; };
    Values all{shown(x)};
    std::int64_t blocks = 0, before = 0;
    for (const auto n : p.depths) blocks += n;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::string name = "layers" + std::to_string(i + 1);
      if (p.use_v2)
        x = unet_block(s / (name + "c.0.layer"), x, x.channels,
                       {.norm = norm_of("instance"), .residual = true});
      SwinOptions o{.depth = p.depths[i], .heads = p.num_heads[i]};
      o.window = PerAxis(p.window_size).over(image.axes);
      o.mlp_ratio = p.mlp_ratio;
      o.qkv_bias = p.qkv_bias;
      o.drop = p.drop_rate;
      o.attn_drop = p.attn_drop_rate;
      o.merging_v2 = p.downsample == "mergingv2";
      for (std::int64_t b = 0; b < o.depth; ++b, ++before)
        o.drop_path.push_back(drop_path_of(p.dropout_path_rate, before, blocks));
      x = swin_stage(s / (name + ".0"), x, o);
      all.push_back(shown(x));
    }
    return all;
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, 32);
  }
};

const RegisterNetwork<SwinUnetr> registered;

}  // namespace
}  // namespace sluice
