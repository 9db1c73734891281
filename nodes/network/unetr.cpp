// unetr: MONAI's UNETR (monai.networks.nets.UNETR 1.6.1) with its parameter names and defaults.
// Hatamizadeh et al. 2022.
//
//   x ─ encoder1 ──────────────────────────────── decoder2 ─ 1x1 ─▶ logits
//   └─ patches of 16 ─ 3 layers ─ encoder2 ─ decoder3 ─┘
//                      3 layers ─ encoder3 ─ decoder4 ─┘
//                      3 layers ─ encoder4 ─ decoder5 ─┘
//                      3 layers ─ norm ───────┘
#include "nodes/network/transformer_params.h"
#include "nodes/network/unetr_decoder.h"

namespace sluice {
namespace {

struct Unetr final : ImageNetwork<Unetr> {
  struct Params : VitParams {
    std::int64_t feature_size = 16;
    Json norm_name = "instance";
    bool conv_block = true, res_block = true;
    Params() { patch_size = {16}; }
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    Spec s = image_net<Params>("unetr",
                               "Transformer encoder and convolutional decoder (MONAI's UNETR).");
    declared(s, "spatial_dims").required = false;
    return s.param("img_size", &Params::img_size, "Extents of the images; one number: of all axes.")
        .at_least(16)
        .required()
        .param("feature_size", &Params::feature_size, "Channels at the images' resolution.")
        .at_least(1)
        .param("hidden_size", &Params::hidden_size, "Channels of a token.")
        .at_least(1)
        .param("mlp_dim", &Params::mlp_dim, "Channels within a layer's perceptron.")
        .at_least(1)
        .param("num_heads", &Params::num_heads, heads_doc)
        .at_least(1)
        .param("proj_type", &Params::proj_type, "How a patch becomes a token.")
        .choices({"conv", "perceptron"})
        .param("norm_name", &Params::norm_name, monai_name_doc)
        .choices(norm_names())
        .param("conv_block", &Params::conv_block, "Blocks after the encoders' upsampling.")
        .param("res_block", &Params::res_block, "Blocks are residual.")
        .param("dropout_rate", &Params::dropout_rate, "Of the transformer.")
        .range(0, 0.99)
        .param("qkv_bias", &Params::qkv_bias, qkv_bias_doc);
  }

  Values build(const Scope& s, const Value& image) const {
    require_multiples("img_size", p.img_size, 16, "a patch's extent");
    const VitOptions o = p.options(image.axes);
    const std::vector<std::int64_t> grid = o.grid();
    const Vit v = vit(s / "vit", image, o);
    const auto f = p.feature_size;
    const auto b = block();
    const Value e1 = unet_block(s / "encoder1.layer", image, f, b);
    const Value e2 = up_only(s / "encoder2", to_image(v.hidden[3], grid), 2 * f, 2);
    const Value e3 = up_only(s / "encoder3", to_image(v.hidden[6], grid), 4 * f, 1);
    const Value e4 = up_only(s / "encoder4", to_image(v.hidden[9], grid), 8 * f, 0);
    return {unetr_decoder(s, to_image(v.out, grid), {e4, e3, e2, e1}, b, p.out_channels)};
  }

 private:
  UnetBlockOptions block() const { return {.norm = norm_of(p.norm_name), .residual = p.res_block}; }
  // UnetrPrUpBlock.
  Value up_only(const Scope& s, const Value& x, std::int64_t out, std::int64_t blocks) const {
    const UnetBlockOptions twice{.kernel_size = 2, .stride = 2};
    Value y = conv_layer(s / "transp_conv_init", x, out, twice, false, true);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const Scope at = s / "blocks" / i;
      y = conv_layer(p.conv_block ? at / 0 : at, y, out, twice, false, true);
      if (p.conv_block) y = unet_block(at / 1, y, out, block());
    }
    return y;
  }

  std::string unfit(at::IntArrayRef extents) const override { return p.unfit(extents); }
};

const RegisterNetwork<Unetr> registered;

}  // namespace
}  // namespace sluice
