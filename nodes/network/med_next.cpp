// med_next: MONAI's MedNeXt (monai.networks.nets.MedNeXt 1.6.1) with its parameter names and
// defaults; norm_type is "group". Roy et al. 2023.
//
//   x ─ stem ─ blocks ──────────────── + ─ blocks ─ out_0 ─▶ logits
//               └ down ─ ... ─ up ────┘    └ out_blocks ─▶ deep supervision
//   block: depthwise conv, norm, 1x1 to more channels, GELU, 1x1, (+ x)
#include <ATen/ATen.h>

#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct MedNext final : ImageNetwork<MedNext> {
  struct Params : ImageNet {
    std::int64_t init_filters = 32, bottleneck_expansion_ratio = 2, kernel_size = 7;
    std::vector<std::int64_t> encoder_expansion_ratio{2}, decoder_expansion_ratio{2};
    bool deep_supervision = false, use_residual_connection = false, global_resp_norm = false;
    std::vector<std::int64_t> blocks_down{2, 2, 2, 2}, blocks_up{2, 2, 2, 2};
    std::int64_t blocks_bottleneck = 2;
    std::string norm_type = "group";
  } p;

  static Spec spec() {
    return image_net<Params>("med_next", "U-Net of ConvNeXt blocks (MONAI's MedNeXt).", false)
        .param("init_filters", &Params::init_filters,
               "Channels of the first level, doubled by each.")
        .at_least(1)
        .param("encoder_expansion_ratio", &Params::encoder_expansion_ratio,
               "Channels within a block, in its own: a number or one a level.")
        .at_least(1)
        .param("decoder_expansion_ratio", &Params::decoder_expansion_ratio,
               "The same, bottom first.")
        .at_least(1)
        .param("bottleneck_expansion_ratio", &Params::bottleneck_expansion_ratio, "The bottom's.")
        .at_least(1)
        .param("kernel_size", &Params::kernel_size, "Odd, of the depthwise convolutions.")
        .at_least(1)
        .param("deep_supervision", &Params::deep_supervision,
               "Lower levels have outputs too, of their own extents: name them in the model "
               "node's output_keys.")
        .param("use_residual_connection", &Params::use_residual_connection, "Blocks are residual.")
        .param("blocks_down", &Params::blocks_down, "Blocks of every level, top first.")
        .at_least(1)
        .length(1)
        .param("blocks_bottleneck", &Params::blocks_bottleneck, "Of the bottom.")
        .at_least(1)
        .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first.")
        .at_least(1)
        .length_of("blocks_down")
        .param("norm_type", &Params::norm_type, "A group for each channel.")
        .choices({"group"})
        .param("global_resp_norm", &Params::global_resp_norm, "Blocks have global response norms.");
  }

  Values build(const Scope& s, const Value& image) const {
    require_odd_kernels(p.kernel_size);
    const std::size_t levels = p.blocks_down.size();
    require_length("blocks_up", p.blocks_up.size(), "blocks_down", levels);
    const auto down = each_of("encoder_expansion_ratio", p.encoder_expansion_ratio, levels),
               up = each_of("decoder_expansion_ratio", p.decoder_expansion_ratio, levels);
    Value x = conv(s / "stem", image, p.init_filters, {.kernel = 1});
    Values skips, outputs;
    for (std::size_t i = 0; i < levels; ++i) {
      const auto n = static_cast<std::int64_t>(i);
      x = blocks(s / "enc_stages" / n, x, p.blocks_down[i], down[i]);
      skips.push_back(x);
      x = lower(s / "down_blocks" / n, x, down[i]);
    }
    x = blocks(s / "bottleneck", x, p.blocks_bottleneck, p.bottleneck_expansion_ratio);
    for (std::size_t i = 0; i < levels; ++i) {
      const auto n = static_cast<std::int64_t>(i);
      if (p.deep_supervision) outputs.insert(outputs.begin(), head(s / "out_blocks" / n, x));
      x = upper(s / "up_blocks" / n, x, up[i]) + skips[levels - 1 - i];
      x = blocks(s / "dec_stages" / n, x, p.blocks_up[i], up[i]);
    }
    outputs.insert(outputs.begin(), head(s / "out_0", x));
    return outputs;
  }

 private:
  // A convolution and what follows in a block.
  Value mixed(const Scope& s, const Value& x, std::int64_t out, std::int64_t ratio, ConvOptions c,
              bool response) const {
    c.kernel = p.kernel_size;
    c.groups = x.channels;
    Value y = conv(s / "conv1", x, x.channels, c);
    y = norm(s / "norm", y, {.kind = Norm::group, .groups = x.channels});
    y = gelu(conv(s / "conv2", y, ratio * x.channels, {.kernel = 1}));
    if (response) y = responded(s, y);
    return conv(s / "conv3", y, out, {.kernel = 1});
  }
  static Value responded(const Scope& s, const Value& x) {
    std::vector<std::int64_t> shape{1, x.channels};
    shape.resize(static_cast<std::size_t>(x.axes) + 2, 1);
    const auto function = [](In t) {
      std::vector<std::int64_t> spatial;
      for (std::int64_t a = 2; a < t[0].dim(); ++a) spatial.push_back(a);
      const at::Tensor size = at::linalg_vector_norm(t[0], 2, spatial, /*keepdim=*/true);
      const at::Tensor share = size / (size.mean(1, /*keepdim=*/true) + 1e-6);
      return t[1] * (t[0] * share) + t[2] + t[0];
    };
    return x.op("global_response_norm", function,
                {.parameters = {s.parameter("global_resp_gamma", shape, Init::fill(0)),
                                s.parameter("global_resp_beta", shape, Init::fill(0))},
                 .name = s.name});
  }
  Value blocks(const Scope& s, const Value& x, std::int64_t count, std::int64_t ratio) const {
    Value y = x;
    for (std::int64_t i = 0; i < count; ++i) {
      const Value made = mixed(s / i, y, y.channels, ratio, {}, p.global_resp_norm);
      y = p.use_residual_connection ? made + y : made;
    }
    return y;
  }
  Value lower(const Scope& s, const Value& x, std::int64_t ratio) const {
    const Value y = mixed(s, x, 2 * x.channels, ratio, {.stride = 2}, false);
    if (!p.use_residual_connection) return y;
    return y + conv(s / "res_conv", x, 2 * x.channels, {.kernel = 1, .stride = 2});
  }
  // A transposed convolution makes one voxel less than twice as many: zeros come before them.
  Value upper(const Scope& s, const Value& x, std::int64_t ratio) const {
    ConvOptions c{.kernel = 1, .stride = 2};
    c.transposed = true;
    const auto before = [](const Value& v) {
      return padded(v, {static_cast<std::size_t>(v.axes), {1, 0}});
    };
    const Value y = before(mixed(s, x, x.channels / 2, ratio, c, p.global_resp_norm));
    return p.use_residual_connection ? y + before(conv(s / "res_conv", x, x.channels / 2, c)) : y;
  }
  Value head(const Scope& s, const Value& x) const {
    ConvOptions c{.kernel = 1};
    c.transposed = true;
    return conv(s / "conv_out", x, p.out_channels, c);
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, std::int64_t{1} << p.blocks_down.size());
  }
};

const RegisterNetwork<MedNext> registered;

}  // namespace
}  // namespace sluice
