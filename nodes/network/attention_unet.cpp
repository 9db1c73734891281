// attention_unet: MONAI's AttentionUnet (monai.networks.nets.AttentionUnet 1.6.1) with its
// parameter names and defaults. Oktay et al. 2018.
//
//   x ─ head ─┬──────── gate ─ merge ─ 1x1 ─▶ logits      model.0, model.1.*, model.2
//             └─ level ─ up ─┘└─────────┘                 a gate weighs the skip's voxels by the
//                └─ ...                                   upsampled lower level
#include <ATen/ATen.h>

#include "nodes/network/unet_levels.h"

namespace sluice {
namespace {

struct AttentionUnet final : ImageNetwork<AttentionUnet> {
  using Params = UNetLevels;
  Params p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    Spec s = image_net<Params>("attention_unet",
                               "U-Net with attention gates on its skips (MONAI's AttentionUnet).");
    return add_unet_levels<Params>(s, 2);
  }

  Values build(const Scope& s, const Value& image) const {
    p.check();
    const Scope m = s / "model";
    const Value x = level(m / 1, conv_block(m / 0, image, p.channels[0], 1), 0);
    return {conv(m / "2.conv", x, p.out_channels, {.kernel = 1})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_strides_divide(extents, p.strides);
  }

 private:
  static Adn adn(double dropout) {
    return {.norm = NormOptions{}, .act = Act{Act::Kind::relu}, .dropout = dropout};
  }
  Value conv_block(const Scope& s, const Value& x, std::int64_t out, const PerAxis& strides) const {
    ConvolutionOptions c{.strides = strides, .kernel_size = p.kernel_size, .adn = adn(p.dropout)};
    const Value y = convolution(s / "conv" / 0, x, out, c);
    c.strides = 1;
    return convolution(s / "conv" / 1, y, out, c);
  }
  // AttentionLayer, and all below it.
  Value level(const Scope& s, const Value& x, std::size_t i) const {
    const bool bottom = i + 2 == p.channels.size();
    const Scope sub = s / "submodule";
    Value y = conv_block(bottom ? sub : sub / 0, x, p.channels[i + 1], p.strides[i]);
    if (!bottom) y = level(sub / 1, y, i + 1);
    ConvolutionOptions up{.strides = p.strides[i], .kernel_size = p.up_kernel_size, .adn = adn(0)};
    up.is_transposed = true;
    y = convolution(s / "upconv.up", y, x.channels, up);
    const Adn usual{.norm = norm_of("instance"), .act = act_of("prelu"), .dropout = p.dropout};
    return convolution(s / "merge", concat({gated(s / "attention", y, x), y}), x.channels,
                       {.adn = usual});
  }
  // AttentionBlock.
  static Value gated(const Scope& s, const Value& by, const Value& x) {
    const auto one = [](const Scope& s, const Value& v, std::int64_t out) {
      return norm(s / 1, conv(s / "0.conv", v, out, {.kernel = 1, .normed = true}));
    };
    const std::int64_t between = x.channels / 2;
    const Value both = relu(one(s / "W_g", by, between) + one(s / "W_x", x, between));
    const Value share = sigmoid(one(s / "psi", both, 1));
    return x.op("gate", [](In t) { return t[0] * t[1]; }, {.with = {share}});
  }
};

const RegisterNetwork<AttentionUnet> registered;

}  // namespace
}  // namespace sluice
