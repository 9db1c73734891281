// unest: UNesT of the Model Zoo's bundles renalStructures_UNEST and wholeBrainSeg_Large_UNEST, with
// their parameter names and defaults; its patch_size is 4. Yu et al. 2023; its encoder is NesT
// (Zhang et al. 2022): attention within blocks, fewer and larger ones on each level.
//
//   x ─ encoder1 ─────────────────────────────────────────────── decoder1 ─ 1x1 ─▶ logits
//   └─ patches of 4 ─┬─ encoder2 ─────────────────── decoder2 ─┘
//                    level 0 ─┬─ encoder3 ─────── decoder3 ─┘
//                             level 1 ─┬─ encoder4 ─ decoder4 ─┘
//                                      level 2 ─┬─ decoder5 ─┘
//                                               norm ─ encoder10 ─┘
#include <ATen/ATen.h>

#include <cmath>

#include "kernels/net/swin.h"
#include "nodes/network/built_network.h"
#include "nodes/network/unetr_decoder.h"

namespace sluice {
namespace {

constexpr double norm_eps = 1e-6;

// A cube [N, C, extents] as tokens [N, voxels, C], block by block.
Value blocks_of(const Value& x, std::int64_t edge) {
  const auto cut = [edge](In t) {
    const std::int64_t n = t[0].size(0), c = t[0].size(1), g = t[0].size(2) / edge;
    return t[0]
        .reshape({n, c, g, edge, g, edge, g, edge})
        .permute({0, 2, 4, 6, 3, 5, 7, 1})
        .reshape({n, -1, c});
  };
  return x.op("blocks", cut, {.axes = 0, .tokens = true, .attributes = {{"edge", edge}}});
}
Value blocks_joined(const Value& tokens, std::int64_t edge, std::int64_t grid) {
  const auto joined = [edge, grid](In t) {
    const std::int64_t n = t[0].size(0), c = t[0].size(2), extent = grid * edge;
    return t[0]
        .reshape({n, grid, grid, grid, edge, edge, edge, c})
        .permute({0, 7, 1, 4, 2, 5, 3, 6})
        .reshape({n, c, extent, extent, extent});
  };
  return tokens.op("blocks_joined", joined,
                   {.axes = 3, .tokens = false, .attributes = {{"edge", edge}}});
}

// What comes out has a token's channels head by head for each channel of a head, as NesT's.
Value block_attention(const Scope& s, const Value& x, std::int64_t heads, std::int64_t within) {
  const std::int64_t c = x.channels, each = c / heads;
  const auto attend = [=](In t) {
    const at::Tensor qkv =
        t[0].view({t[0].size(0), -1, within, 3, heads, each}).permute({3, 0, 1, 4, 2, 5});
    const double scale = 1 / std::sqrt(static_cast<double>(each));
    const at::Tensor shares = at::softmax(at::matmul(qkv[0], qkv[1].transpose(-2, -1)) * scale, -1);
    return at::matmul(shares, qkv[2]).permute({0, 1, 3, 4, 2}).reshape({t[0].size(0), -1, c});
  };
  const LinearOptions drawn{.init = Init::normal(0.02), .bias_init = Init::fill(0)};
  const Value y = linear(s / "qkv", x, 3 * c, drawn)
                      .op("block_attention", attend,
                          {.channels = c, .attributes = {{"heads", heads}, {"block", within}}});
  return linear(s / "proj", y, c, drawn);
}

struct Unest final : ImageNetwork<Unest> {
  struct Params : ImageNet {
    std::int64_t img_size = 96, feature_size = 16;
    std::vector<std::int64_t> embed_dim{128, 256, 512}, depths{2, 2, 8}, num_heads{4, 8, 16};
    double dropout_path_rate = 0.5;
    Json norm_name = "instance";
    bool res_block = true;
  } p;

  static Spec spec() {
    Spec s = image_net<Params>("unest",
                               "Nested transformer as encoder, convolutional decoder (the Model "
                               "Zoo's UNesT), of cubes.");
    leave_out(s, {"spatial_dims"});
    return s.param("img_size", &Params::img_size, "Extent of the images along each axis.")
        .at_least(32)
        .param("feature_size", &Params::feature_size,
               "Half of the channels at the images' resolution; embed_dim ends with 32 times it.")
        .at_least(1)
        .param("embed_dim", &Params::embed_dim, "Channels of a token on each of three levels.")
        .at_least(1)
        .length(3, 3)
        .param("depths", &Params::depths, "Layers of each level.")
        .at_least(1)
        .length(3, 3)
        .param("num_heads", &Params::num_heads, "Heads of attention of each level.")
        .at_least(1)
        .length(3, 3)
        .param("dropout_path_rate", &Params::dropout_path_rate,
               "Of the last layer's additions, for whole samples; from 0 in even steps.")
        .range(0, 0.99)
        .param("norm_name", &Params::norm_name,
               "Of convolutions, as in MONAI: a name, or [name, {arguments}].")
        .choices(norm_names())
        .param("res_block", &Params::res_block, "Blocks of convolutions are residual.");
  }

  Values build(const Scope& s, const Value& image) const {
    require_multiples("img_size", p.img_size, 32);
    if (p.embed_dim[2] != 32 * p.feature_size)
      refuse("embed_dim must end with 32 times feature_size, which is " +
             std::to_string(32 * p.feature_size));
    const auto f = p.feature_size;
    const UnetBlockOptions b{.norm = norm_of(p.norm_name), .residual = p.res_block};
    const auto layer = [&](const char* name, const Value& x, std::int64_t out) {
      return unet_block(s / name / "layer", x, out, b);
    };
    const Values h = encoder(s / "nestViT", image);
    const Value e0 = layer("encoder1", image, 2 * f);
    const Value e1 = up(s / "encoder2", h[0], 4 * f);
    const Value e2 = layer("encoder3", h[1], 8 * f);
    const Value e3 = layer("encoder4", h[2], 16 * f);
    const Value d =
        convolution(s / "encoder10", h[4], 64 * f,
                    {.strides = 2,
                     .adn = {.ordering = "ADN",
                             .norm = NormOptions{.kind = Norm::instance, .affine = false},
                             .act = Act{Act::Kind::prelu, 0.25}}});
    return {unetr_decoder(s, d, {h[3], e3, e2, e1, e0}, b, p.out_channels)};
  }

 private:
  static Value up(const Scope& s, const Value& x, std::int64_t out) {
    const Value y =
        conv_layer(s / "transp_conv_init", x, out, {.kernel_size = 2, .stride = 2}, false, true);
    return conv_layer(s / "blocks.0", y, out, {.kernel_size = 1, .stride = 1}, false, true);
  }

  // The embedded patches, what every level makes of them, and the last one's, normed.
  Values encoder(const Scope& s, const Value& image) const {
    Value x = conv(s / "patch_embed.proj", image, p.embed_dim[0],
                   {.kernel = 4, .stride = 4, .padding = 0});
    Values all{x};
    const std::int64_t edge = p.img_size / 16, within = edge * edge * edge;
    std::int64_t layers = 0, before = 0;
    for (const auto n : p.depths) layers += n;
    for (std::size_t i = 0; i < 3; ++i) {
      const Scope at = s / "levels" / static_cast<std::int64_t>(i);
      const std::int64_t grid = std::int64_t{4} >> i, c = p.embed_dim[i];
      require_multiples("embed_dim", c, p.num_heads[i], "num_heads");
      const int places =
          at.parameter("pos_embed", {1, grid * grid * grid, within, c}, Init::normal(0.02));
      if (i > 0)
        x = max_pool(channel_norm(at / "pool.norm", conv(at / "pool.conv", x, c), norm_eps),
                     {.kernel = 3, .stride = 2, .padding = 1});
      x = blocks_of(x, edge).op("add_positions", [](In t) { return t[0] + t[1].flatten(1, 2); },
                                {.parameters = {places}, .name = at.name});
      for (std::int64_t k = 0; k < p.depths[i]; ++k, ++before)
        x = layer(at / "transformer_encoder" / k, x, p.num_heads[i], within,
                  drop_path_of(p.dropout_path_rate, before, layers));
      x = blocks_joined(x, edge, grid);
      all.push_back(x);
    }
    all.push_back(channel_norm(s / "norm", x, norm_eps));
    return all;
  }

  static Value layer(const Scope& s, const Value& x, std::int64_t heads, std::int64_t within,
                     double drop_path) {
    const auto added = [&](const Value& y) {
      return drop_path > 0 ? dropout_samples(y, drop_path) : y;
    };
    const LinearOptions drawn{.init = Init::normal(0.02), .bias_init = Init::fill(0)};
    const Value y = x + added(block_attention(s / "attn", channel_norm(s / "norm1", x, norm_eps),
                                              heads, within));
    const Value wide =
        gelu(linear(s / "mlp.fc1", channel_norm(s / "norm2", y, norm_eps), 4 * x.channels, drawn));
    return y + added(linear(s / "mlp.fc2", wide, x.channels, drawn));
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "img_size", std::vector(extents.size(), p.img_size));
  }
};

const RegisterNetwork<Unest> registered;

}  // namespace
}  // namespace sluice
