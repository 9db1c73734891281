// cople_net: the COPLE-Net of MONAI's research contributions, with its parameter names and
// defaults. Wang et al. 2020. A 2-D network; a volume is a batch of slices along its first axis.
//
//   in_conv ── bridge0 ───────────────── up4 ─ out_conv      every level: max beside average pool,
//      └ down1 ── bridge1 ───────── up3 ─┘                   a residual block with squeeze and
//          └ down2 ── bridge2 ── up2 ─┘                      excitation
//              └ down3 ─ bridge3 ─ up1
//                  └ down4 ─ aspp ─┘
#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct CopleNet final : ImageNetwork<CopleNet> {
  struct Params : ImageNet {
    std::vector<std::int64_t> feature_channels{32, 64, 128, 256, 512};
    std::vector<double> dropout{0.0, 0.0, 0.3, 0.4, 0.5};
    Params() { spatial_dims = 2; }  // not in the file: a volume is taken too
  } p;

  static Spec spec() {
    Spec s = image_net<Params>("cople_net",
                               "COPLE-Net (MONAI's research contribution), a 2-D network. A volume "
                               "[N, C, D, H, W] is seen "
                               "as the slices of its first axis.",
                               false);
    leave_out(s, {"spatial_dims"});
    s.param("feature_channels", &Params::feature_channels,
            "Channels of the five levels, each twice those before it.")
        .at_least(4)
        .length(5, 5)
        .param("dropout", &Params::dropout, "Probability that a value becomes 0, by level.")
        .range(0, 0.99)
        .length(5, 5);
    return s;
  }

  Values build(const Scope& s, const Value& image) const {
    const auto& f = p.feature_channels;
    for (std::size_t i = 1; i < f.size(); ++i)
      if (f[i] != 2 * f[i - 1])
        refuse("feature_channels double from level to level, got " + std::to_string(f[i - 1]) +
               " and " + std::to_string(f[i]));
    if (f[0] % 2 != 0) refuse("feature_channels are even, got " + std::to_string(f[0]));
    const auto at = [&](const char* what, std::size_t i) { return s / (what + std::to_string(i)); };
    Value x = block(s / "in_conv", image, f[0], p.dropout[0]);
    Values bridges;
    for (std::size_t i = 0; i < 4; ++i) {
      bridges.push_back(
          convolution(at("bridge", i), x, f[i] / 2, {.kernel_size = 1, .adn = norm_act()}));
      const Value pooled = max_avg_pool(x);
      x = block(at("down", i + 1) / "conv", pooled, f[i + 1], p.dropout[i + 1]) + pooled;
    }
    x = simple_aspp(s / "aspp", x, f[4] / 4);
    for (std::size_t i = 4; i-- > 0;) {
      const Scope up = at("up", 4 - i);
      const Value wide = upsample(up / "up", x, f[i] / 2, {.mode = "nontrainable"});
      const Value both = concat({bridges[i], wide});
      x = block(up / "conv", both, f[i], p.dropout[i]) + both;
    }
    return {convolution(s / "out_conv", x, p.out_channels, {.conv_only = true})};
  }

  Tensors forward(const Tensors& x, std::size_t count) override {
    if (x[0].dim() != 5) return BuiltNetwork::forward(x, count);
    const std::int64_t n = x[0].size(0), depth = x[0].size(2);
    Tensors out = BuiltNetwork::forward({x[0].transpose(1, 2).flatten(0, 1)}, count);
    for (at::Tensor& y : out) y = y.unflatten(0, {n, depth}).transpose(1, 2);
    return out;
  }

 private:
  static Adn norm_act() { return {.norm = NormOptions{}, .act = Act{Act::Kind::leaky_relu, 0.01}}; }

  static Value block(const Scope& s, const Value& x, std::int64_t out, double drop) {
    const Scope in = s / "conv_conv_se";
    Value y = convolution(in / "0", x, out, {.adn = norm_act()});
    if (drop > 0) y = dropout(y, drop);
    y = convolution(in / "2", y, out, {.adn = norm_act()});
    return residual_se_layer(in / "3", y);
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, 16);
  }
};

const RegisterNetwork<CopleNet> registered;

}  // namespace
}  // namespace sluice
