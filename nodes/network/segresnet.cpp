// segresnet: MONAI's SegResNet (monai.networks.nets.SegResNet 1.6.1) with its parameter names and
// defaults. Myronenko 2018, without the autoencoder's branch.
//
//   x ─ convInit ─ blocks ──────────────────────────── + ─ blocks ─ norm, ReLU, 1x1 ─▶ logits
//                    └─ stride 2 ─ blocks ──── + ─ blocks ─ 1x1, x2 ─┘
//                                    └─ stride 2 ─ blocks ─ 1x1, x2 ─┘
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct SegResNet final : ImageNetwork<SegResNet> {
  struct Params : ImageNet {
    std::int64_t init_filters = 8;
    std::optional<double> dropout_prob;
    std::int64_t num_groups = 8;
    bool use_conv_final = true;
    std::vector<std::int64_t> blocks_down{1, 2, 2, 4}, blocks_up{1, 1, 1};
  } p;

  static Spec spec() {
    return image_net<Params>("segresnet",
                             "Residual encoder and decoder, 2-D or 3-D (MONAI's SegResNet).", false)
        .param("init_filters", &Params::init_filters,
               "Channels of the first level, doubled by each.")
        .at_least(1)
        .param("dropout_prob", &Params::dropout_prob,
               "Probability that a channel of the first convolution becomes 0 in training.")
        .range(0, 0.99)
        .param("num_groups", &Params::num_groups, "Groups of the group norms.")
        .at_least(1)
        .param("use_conv_final", &Params::use_conv_final, "Norm, ReLU and 1x1 at the end.")
        .param("blocks_down", &Params::blocks_down, "Residual blocks of every level, top first.")
        .at_least(1)
        .length(1)
        .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first.")
        .at_least(1)
        .length_of("blocks_down", -1);
  }

  Values build(const Scope& s, const Value& image) const {
    if (p.init_filters % p.num_groups != 0) refuse("init_filters is no multiple of num_groups");
    if (p.blocks_up.size() + 1 != p.blocks_down.size())
      refuse("blocks_up needs one entry fewer than blocks_down");
    Value x = conv3(s / "convInit.conv", image, p.init_filters);
    if (p.dropout_prob) x = dropout_channels(x, *p.dropout_prob);
    Values skips;
    for (std::size_t i = 0; i < p.blocks_down.size(); ++i) {
      const Scope level = s / "down_layers" / static_cast<std::int64_t>(i);
      if (i > 0) x = conv3(level / "0.conv", x, 2 * x.channels, 2);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b) x = block(level / b, x);
      skips.push_back(x);
    }
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i) {
      const Scope sample = s / "up_samples" / static_cast<std::int64_t>(i),
                  level = s / "up_layers" / static_cast<std::int64_t>(i);
      skips.pop_back();
      x = conv(sample / "0.conv", x, x.channels / 2, {.kernel = 1, .bias = false});
      x = doubled(x) + skips.back();
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b) x = block(level / b, x);
    }
    // MONAI has its parameters where it is not used, too.
    const Value last = conv(s / "conv_final.2.conv", norm_relu(s / "conv_final.0", x),
                            p.out_channels, {.kernel = 1});
    return {p.use_conv_final ? last : x};
  }

 private:
  static Value conv3(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride = 1) {
    return conv(s, x, out, {.kernel = 3, .stride = stride, .bias = false});
  }
  Value norm_relu(const Scope& s, const Value& x) const {
    return relu(norm(s, x, {.kind = Norm::group, .groups = p.num_groups}));
  }
  Value block(const Scope& s, const Value& x) const {
    const Value y = conv3(s / "conv1.conv", norm_relu(s / "norm1", x), x.channels);
    return conv3(s / "conv2.conv", norm_relu(s / "norm2", y), x.channels) + x;
  }

  std::string unfit(at::IntArrayRef extents) const override {
    const std::int64_t step = std::int64_t{1} << (p.blocks_down.size() - 1);
    for (const std::int64_t n : extents)
      if (n % step != 0)
        return "takes extents that are multiples of " + std::to_string(step) + ", got " +
               c10::str(extents);
    return "";
  }
};

const RegisterNetwork<SegResNet> registered;

}  // namespace
}  // namespace sluice
