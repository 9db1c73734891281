// autoencoder_kl, spade_autoencoder_kl, autoencoder_kl_maisi: MONAI's AutoencoderKL and
// SPADEAutoencoderKL (monai.networks.nets 1.6.1) and AutoencoderKlMaisi
// (monai.apps.generation.maisi.networks), with their parameter names and defaults. Rombach et al.
// 2022; Pinaya et al. 2022; Fernandez et al. 2022 (SPADE); Guo et al. 2024 (MAISI).
//
//   x ─ conv ─ residual blocks, attention ─ / 2 ─ ... ─ norm, conv ─┬─ conv 1 ─▶ output 1: z_mu
//                                                                   └─ conv 1 ─▶ output 2: z_sigma
//   z_mu (in training + noise z_sigma) ─ conv 1 ─ conv ─ the way back ─▶ output 0: reconstruction
//   part: the encoder alone gives the latent image, mean and deviation; the decoder takes one
//   spade_autoencoder_kl: a map of labels, seg, scales the norms of the way back
//   autoencoder_kl_maisi: 3-D; doubles by linear interpolation. MONAI's, for less memory, splits
//   images (num_splits, dim_split) and empties caches (save_mem): `memory` is for that here
#include <ATen/ATen.h>

#include "kernels/net/generative.h"
#include "kernels/net/up.h"
#include "nodes/network/generative_params.h"
#include "nodes/network/latent.h"

namespace sluice {
namespace {

template <Variant variant>
struct AutoencoderKL final : ImageNetwork<AutoencoderKL<variant>> {
  static constexpr bool with_spade = variant == Variant::spade, maisi = variant == Variant::maisi;
  struct Params : ImageNet {
    std::string channels_name = maisi ? "num_channels" : "channels";
    std::vector<std::int64_t> num_res_blocks{2, 2, 2, 2}, channels{32, 64, 64, 64};
    std::vector<bool> attention_levels{false, false, true, true};
    std::int64_t latent_channels = 3, norm_num_groups = 32;
    double norm_eps = 1e-6;
    bool with_encoder_nonlocal_attn = !maisi, with_decoder_nonlocal_attn = !maisi;
    bool use_convtranspose = false, include_fc = !maisi, use_combined_linear = false;
    std::int64_t label_nc = 0, spade_intermediate_channels = 128;
    std::string part = "all";
    Params() { this->out_channels = 1; }
  } p;

  static constexpr int least_axes = maisi ? 3 : 1;
  static Spec spec() {
    Spec s = image_net<Params>(
        with_spade ? "spade_autoencoder_kl"
        : maisi    ? "autoencoder_kl_maisi"
                   : "autoencoder_kl",
        std::string(with_spade ? "autoencoder_kl whose decoder reads a map of labels (MONAI's "
                                 "SPADEAutoencoderKL). Inputs: image, seg"
                    : maisi    ? "Autoencoder of volumes with a normally distributed latent image "
                                 "(MONAI's AutoencoderKlMaisi)"
                               : "Autoencoder with a normally distributed latent image (MONAI's "
                                 "AutoencoderKL)") +
            ". Further outputs, by the model node's output_keys: the latent image's mean and "
            "deviation.",
        maisi, "Channels of the reconstruction.");
    declared(s, "spatial_dims").required = true;
    if (with_spade)
      add_spade_params<Params>(s);
    else
      s.param("use_convtranspose", &Params::use_convtranspose,
              "The decoder doubles extents by transposed convolutions.");
    add_generative_levels<Params>(s);
    if (maisi)
      for (const char* name : {"num_res_blocks", "num_channels", "attention_levels"})
        declared(s, name).required = true;
    return s.param("latent_channels", &Params::latent_channels, "Of the latent image.")
        .at_least(1)
        .param("part", &Params::part,
               "encoder: of the network only what makes the latent image, whose outputs are that "
               "image (in training a draw, else the mean), its mean and its deviation; decoder: "
               "only what makes images of latent ones. Weights of the whole are loaded with "
               "partial.")
        .choices({"all", "encoder", "decoder"})
        .gives("latent", Form::any)
        .when("part", "all", true)
        .param("with_encoder_nonlocal_attn", &Params::with_encoder_nonlocal_attn,
               "Attention at the end of the encoder.")
        .param("with_decoder_nonlocal_attn", &Params::with_decoder_nonlocal_attn,
               "Attention at the beginning of the decoder.");
  }

  std::vector<NetInput> inputs() const {
    std::vector<NetInput> all{{.channels = decodes_only() ? p.latent_channels : p.in_channels}};
    if (with_spade) all.push_back({.key = "seg", .channels = p.label_nc, .finer = 0});
    return all;
  }

  Values build(const Scope& s, const Values& inputs) const {
    require_generative_levels(p);
    Values made;
    if (!decodes_only()) made = latent(s, inputs[0]);
    if (p.part == "encoder") return made;
    const Value z = decodes_only() ? inputs[0] : made[0];
    const Value y = conv(s / "post_quant_conv.conv", z, p.latent_channels, {.kernel = 1});
    const Value image = decoded(s / "decoder.blocks", y, inputs);
    return decodes_only() ? Values{image} : Values{image, made[1], made[2]};
  }

 private:
  bool decodes_only() const { return p.part == "decoder"; }
  // The latent image, its mean and its deviation.
  Values latent(const Scope& s, const Value& image) const {
    const Value x = encoded(s / "encoder.blocks", image);
    const ConvOptions one{.kernel = 1};
    const Value mean = conv(s / "quant_conv_mu.conv", x, p.latent_channels, one);
    const Value deviation =
        conv(s / "quant_conv_log_sigma.conv", x, p.latent_channels, one).op("deviation", [](In t) {
          return at::exp(t[0].clamp(-30, 20) / 2);
        });
    return {noised(mean, deviation), mean, deviation};
  }
  // Blocks are numbered in their order.
  Value encoded(const Scope& s, const Value& image) const {
    std::int64_t i = 0;
    Value x = conv(own(s / i++), image, p.channels[0]);
    for (std::size_t level = 0; level < p.channels.size(); ++level) {
      x = blocks(s, i, x, level);
      if (level + 1 == p.channels.size()) break;
      x = padded(x, std::vector<std::pair<std::int64_t, std::int64_t>>(p.spatial_dims, {0, 1}));
      x = conv(own(s / i++ / "conv"), x, x.channels, {.stride = 2, .padding = 0});
    }
    if (p.with_encoder_nonlocal_attn) x = nonlocal(s, i, x);
    x = group_norm(s / i++, x);
    return conv(own(s / i), x, p.latent_channels);
  }
  Value decoded(const Scope& s, const Value& latent, const Values& inputs) const {
    std::optional<SpadeOptions> seg;
    if (with_spade) seg = SpadeOptions{inputs[1], p.spade_intermediate_channels};
    std::int64_t i = 0;
    Value x = conv(own(s / i++), latent, p.channels.back());
    if (p.with_decoder_nonlocal_attn) x = nonlocal(s, i, x, seg);
    for (std::size_t level = p.channels.size(); level-- > 0;) {
      x = blocks(s, i, x, level, seg);
      if (level == 0) break;
      x = enlarged(s / i++, x);
    }
    x = group_norm(s / i++, x);
    return conv(own(s / i), x, p.out_channels);
  }
  Value enlarged(const Scope& s, const Value& x) const {
    if (maisi && p.use_convtranspose)
      return conv(own(s / "conv"), x, x.channels,
                  {.stride = 2, .output_padding = 1, .transposed = true});
    if (p.use_convtranspose) return upsample(s, x, x.channels);
    return maisi ? conv(own(s / "conv"), doubled(x), x.channels)
                 : conv(s / "postconv.conv", magnified(x, 2, false, false), x.channels);
  }
  // A convolution of MONAI's, which MAISI's own, that splits images, is around.
  static Scope own(const Scope& s) { return s / (maisi ? "conv.conv" : "conv"); }

  using Seg = std::optional<SpadeOptions>;
  Value blocks(const Scope& s, std::int64_t& i, Value x, std::size_t level,
               const Seg& seg = {}) const {
    const std::int64_t count = p.num_res_blocks[p.num_res_blocks.size() > 1 ? level : 0];
    for (std::int64_t b = 0; b < count; ++b) {
      x = residual(s / i++, x, p.channels[level], seg, own);
      if (p.attention_levels[level]) x = attention(s / i++, x);
    }
    return x;
  }
  Value nonlocal(const Scope& s, std::int64_t& i, const Value& x, const Seg& seg = {}) const {
    const auto plain = [](const Scope& at) { return at / "conv"; };
    Value y = residual(s / i++, x, x.channels, seg, plain);
    y = attention(s / i++, y);
    return residual(s / i++, y, x.channels, seg, plain);
  }

  NormOptions groups() const {
    return {.kind = Norm::group, .eps = p.norm_eps, .groups = p.norm_num_groups};
  }
  Value group_norm(const Scope& s, const Value& x) const { return norm(s, x, groups()); }
  Value normed(const Scope& s, const Value& x, const Seg& seg) const {
    if (!seg) return group_norm(s, x);
    NormOptions bare = groups();
    bare.affine = false;
    return spade(s, x, bare, *seg);
  }
  Value residual(const Scope& s, const Value& x, std::int64_t out, const Seg& seg, auto at) const {
    Value y = conv(at(s / "conv1"), silu(normed(s / "norm1", x, seg)), out);
    y = conv(at(s / "conv2"), silu(normed(s / "norm2", y, seg)), out);
    return y + (x.channels == out ? x : conv(at(s / "nin_shortcut"), x, out, {.kernel = 1}));
  }
  Value attention(const Scope& s, const Value& x) const {
    return spatial_attention(s, x, {groups(), 0, p.include_fc, p.use_combined_linear});
  }

  std::string unfit(at::IntArrayRef extents) const override {
    if (decodes_only()) return {};
    return unless_multiples(extents, std::int64_t{1} << (p.channels.size() - 1));
  }
};

const RegisterNetwork<AutoencoderKL<Variant::plain>> registered;
const RegisterNetwork<AutoencoderKL<Variant::spade>> registered_spade;
const RegisterNetwork<AutoencoderKL<Variant::maisi>> registered_maisi;

}  // namespace
}  // namespace sluice
