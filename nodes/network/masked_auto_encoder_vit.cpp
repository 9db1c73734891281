// masked_auto_encoder_vit: MONAI's MaskedAutoEncoderViT (monai.networks.nets 1.6.1), with its
// parameter names and defaults. He et al. 2022.
//
//   x ─ patches ─ those that are drawn ─ layers ─ linear ─ in their places, else mask_tokens ─
//   layers
//     ─ linear ─▶ output 0: every patch's numbers [N, T, voxels]; output 1: 1 where it was masked
#include <ATen/ATen.h>

#include "nodes/network/transformer_params.h"

namespace sluice {
namespace {

struct MaskedAutoEncoderViT final : ImageNetwork<MaskedAutoEncoderViT> {
  struct Params : VitParams {
    double masking_ratio = 0.75;
    std::int64_t decoder_hidden_size = 384, decoder_mlp_dim = 512, decoder_num_layers = 4;
    std::int64_t decoder_num_heads = 12;
    std::string pos_embed_type = "sincos", decoder_pos_embed_type = "sincos";
    Params() { mlp_dim = 512; }
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "masked_auto_encoder_vit",
        "Vision transformer that guesses patches which it was not shown (MONAI's "
        "MaskedAutoEncoderViT). Second output, by the model node's output_keys: the mask [N, T].",
        false);
    leave_out(s, {"out_channels"});
    declared(s, "in_channels").required = true;
    s.gives("logits", Form::any).dtype("float32");
    add_transformer_params<Params>(s)
        .param("masking_ratio", &Params::masking_ratio, "The share of patches that is masked.")
        .range(0, 1)
        .param("decoder_hidden_size", &Params::decoder_hidden_size, "The same of the decoder.")
        .at_least(1)
        .param("decoder_mlp_dim", &Params::decoder_mlp_dim, "The same.")
        .at_least(1)
        .param("decoder_num_layers", &Params::decoder_num_layers, "The same.")
        .at_least(1)
        .param("decoder_num_heads", &Params::decoder_num_heads, "The same.")
        .at_least(1)
        .param("proj_type", &Params::proj_type, "How a patch becomes a token.")
        .choices({"conv", "perceptron"})
        .param("pos_embed_type", &Params::pos_embed_type,
               "What a patch's place adds: learnable, the same from zero (none), a constant.")
        .choices({"none", "learnable", "sincos"})
        .param("decoder_pos_embed_type", &Params::decoder_pos_embed_type, "The same, decoder.")
        .choices({"none", "learnable", "sincos"});
    return add_attention_params<Params>(s);
  }

  Values build(const Scope& s, const Value& image) const {
    const VitOptions o = encoder(image.axes), d = decoder(image.axes);
    require_patches_divide(o);
    require_multiples("hidden_size", o.hidden, o.heads, "num_heads");
    require_multiples("decoder_hidden_size", d.hidden, d.heads, "decoder_num_heads");
    std::int64_t tokens = 1, voxels = p.in_channels;
    for (std::size_t a = 0; a < o.patch.size(); ++a) {
      tokens *= o.img_size[a] / o.patch[a];
      voxels *= o.patch[a];
    }
    const auto shown =
        static_cast<std::int64_t>((1 - p.masking_ratio) * static_cast<double>(tokens));
    if (shown < 1 || shown == tokens) refuse("masking_ratio leaves no patch shown, or none masked");

    Value x = patch_embedding(s / "patch_embedding", image, o);
    const Value chosen = chosen_tokens(x, shown);
    x = x.op("choose", [](In t) { return t[0].gather(1, spread(t[1], t[0].size(2))); },
             {.with = {chosen}});
    x = x.op("class_token",
             [](In t) {
               return at::cat({t[1].expand({t[0].size(0), 1, -1}), t[0]}, 1);
             },
             {.parameters = {s.parameter("cls_token", {1, 1, o.hidden}, Init::normal(0.02))}});
    x = linear(s / "decoder_embed", layers(s / "blocks", x, o), d.hidden);

    const int mask_tokens = s.parameter("mask_tokens", {1, 1, d.hidden}, Init::normal(0.02));
    const Value all = x.op("unmask",
                           [tokens](In t) {
                             const at::Tensor masked = t[2].expand({t[0].size(0), tokens, -1});
                             return masked.scatter(1, spread(t[1], t[0].size(2)), t[0].slice(1, 1));
                           },
                           {.with = {chosen}, .parameters = {mask_tokens}});
    Value y = add_positions(s, "decoder_pos_embedding", all, d);
    y = x.op("class_token",
             [](In t) {
               return at::cat({t[0].slice(1, 0, 1), t[1]}, 1);
             },
             {.with = {y}});
    y = linear(s / "decoder_pred", layers(s / "decoder_blocks", y, d), voxels);
    y = y.op("without_first", [](In t) { return t[0].slice(1, 1); });
    const Value mask =
        chosen.op("mask",
                  [tokens](In t) {
                    const auto ones = at::ones({t[0].size(0), tokens}, t[0].options());
                    return ones.scatter(1, t[0].to(at::kLong), 0);
                  },
                  {.channels = tokens});
    return {y, mask};
  }

  std::string unfit(at::IntArrayRef extents) const override { return p.unfit(extents); }

 private:
  // Token numbers [N, T] for every channel.
  static at::Tensor spread(const at::Tensor& tokens, std::int64_t channels) {
    return tokens.to(at::kLong).unsqueeze(2).expand({-1, -1, channels});
  }
  static Value layers(const Scope& s, Value x, const VitOptions& o) {
    for (std::int64_t i = 0; i < o.layers; ++i) x = transformer_block(s / i, x, o);
    return layer_norm(s / o.layers, x);
  }
  VitOptions encoder(int axes) const {
    VitOptions o = p.options(axes);
    o.pos_embed_type = p.pos_embed_type;
    return o;
  }
  VitOptions decoder(int axes) const {
    VitOptions o = encoder(axes);
    o.hidden = p.decoder_hidden_size;
    o.mlp = p.decoder_mlp_dim;
    o.layers = p.decoder_num_layers;
    o.heads = p.decoder_num_heads;
    o.pos_embed_type = p.decoder_pos_embed_type;
    return o;
  }
};

const RegisterNetwork<MaskedAutoEncoderViT> registered;

}  // namespace
}  // namespace sluice
