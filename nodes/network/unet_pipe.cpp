// unet_pipe: the U-Net of LAMP (UNetPipe of MONAI's research contributions) with its parameter
// names. Zhu et al. 2020, LAMP: large deep nets with automated model parallelism for image
// segmentation.
//
//   x ── encoder.0 ──┬────────────────── decoder.3 ── decoder.4 ──▶ logits    the first halves, the
//                    └─ encoder.1 ──┬─── decoder.2                            last one doubles
//                                   └─ ...
#include "nodes/network/staged_network.h"

namespace sluice {
namespace {

struct UNetPipe final : StagedNetwork<UNetPipe> {
  struct Params : ImageNet, InStages {
    std::int64_t n_feat = 32, depth = 4;
  } p;

  static Spec spec() {
    return add_stages<Params>(
               image_net<Params>("unet_pipe", "LAMP's U-Net, 2-D or 3-D, to be cut into stages."))
        .param("n_feat", &Params::n_feat,
               "Channels of the first level; each below has twice as many, up to 1024.")
        .at_least(2)
        .param("depth", &Params::depth, "Levels below the first.")
        .range(1, 8);
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, std::int64_t{2} << p.depth);
  }

  Values build(const Scope& s, const Value& image) const {
    std::vector<std::int64_t> features{p.n_feat};
    for (std::int64_t i = 0; i < p.depth; ++i)
      features.push_back(std::min<std::int64_t>(2 * features.back(), 1024));
    const auto depth = static_cast<std::size_t>(p.depth);
    const Scope encoder = s / "encoder", decoder = s / "decoder";
    std::vector<Value> x{normed(encoder / 0 / "Conv", image, features[0], 2)};
    for (std::size_t i = 1; i <= depth; ++i)
      x.push_back(
          double_conv(encoder / static_cast<std::int64_t>(i) / "Down", x.back(), features[i], 2));
    Value y = x.back();
    for (std::size_t i = depth; i > 0; --i) {
      const Scope up = decoder / static_cast<std::int64_t>(depth - i);
      y = concat({doubled(up / "Up", y, features[i - 1]), x[i - 1]});
      y = conv(up / "Conv1x1x1", y, features[i], {.kernel = 1, .init = Init::kaiming()});
      y = double_conv(up / "Conv", y, features[i - 1], 1);
    }
    const Scope last = decoder / p.depth;
    y = leaky_relu(doubled(last / "Up", y, std::min<std::int64_t>(p.n_feat / 2, 32)), slope);
    return {conv(last / "out", y, p.out_channels, {.init = Init::kaiming()})};
  }

 private:
  static constexpr double slope = 0.01;

  // Convolution, batch norm, leaky ReLU.
  static Value normed(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride) {
    return convolution(s, x, out,
                       {.strides = stride,
                        .adn = {.norm = NormOptions{}, .act = Act{Act::Kind::leaky_relu, slope}},
                        .bias = false,
                        .init = Init::kaiming()});
  }
  static Value double_conv(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride) {
    return convolution(s / "conv" / 1, normed(s / "conv" / 0, x, out, stride), out,
                       {.conv_only = true, .init = Init::kaiming()});
  }
  static Value doubled(const Scope& s, const Value& x, std::int64_t out) {
    return conv(
        s / "deconv", x, out,
        {.kernel = 2, .stride = 2, .padding = 0, .transposed = true, .init = Init::kaiming()});
  }
};

const RegisterNetwork<UNetPipe> registered;

}  // namespace
}  // namespace sluice
