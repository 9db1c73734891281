// densenet121, 169, 201, 264: MONAI's DenseNet (monai.networks.nets.DenseNet 1.6.1), 2-D or 3-D,
// with its parameter names. Huang et al. 2017.
//
//   x ─ conv 7 / 2 ─ norm ─ relu ─ max pool 3 / 2 ─ block ─ transition ─ block ─ ... ─ norm ─ relu
//     ─ mean over all voxels ─ linear ─▶ logits [N, classes]
//   block: layers of norm, relu, conv 1, norm, relu, conv 3, each appended to what it read
//   transition: norm, relu, conv 1 to half of the channels, average pool 2
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct DenseKind {
  int layers;
  std::int64_t blocks[4];
};
constexpr DenseKind dense_kinds[] = {
    {121, {6, 12, 24, 16}}, {169, {6, 12, 32, 32}}, {201, {6, 12, 48, 32}}, {264, {6, 12, 64, 48}}};

template <int kind>
struct DenseNet final : ImageNetwork<DenseNet<kind>> {
  struct Params : ImageNet {
    std::int64_t init_features = 64, growth_rate = 32, bn_size = 4;
    std::optional<std::vector<std::int64_t>> block_config;
    double dropout_prob = 0;
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    const std::string layers = std::to_string(dense_kinds[kind].layers);
    std::string blocks;
    for (const auto n : dense_kinds[kind].blocks)
      blocks += (blocks.empty() ? "" : ", ") + std::to_string(n);
    return class_net<Params>("densenet" + layers,
                             "DenseNet-" + layers +
                                 " for classes of whole images, 2-D or 3-D (MONAI's DenseNet).")
        .param("init_features", &Params::init_features, "Channels of the first convolution.")
        .at_least(1)
        .param("growth_rate", &Params::growth_rate, "Channels that each layer adds.")
        .at_least(1)
        .param("block_config", &Params::block_config, "Layers of each block; null: " + blocks + ".")
        .at_least(1)
        .param("bn_size", &Params::bn_size, "Channels between a layer's convolutions, in growths.")
        .at_least(1)
        .param("dropout_prob", &Params::dropout_prob,
               "Probability that a channel which a layer adds becomes 0 in training; of a signal a "
               "value.")
        .range(0, 0.99);
  }

  Values build(const Scope& s, const Value& image) const {
    const Scope f = s / "features";
    Value x = bare_conv(f / "conv0", image, p.init_features, 7, 2);
    x = max_pool(norm_relu(f / "norm0", x), {.kernel = 3, .stride = 2, .padding = 1});
    const auto config = blocks();
    for (std::size_t b = 0; b < config.size(); ++b) {
      const std::string number = std::to_string(b + 1);
      for (std::int64_t i = 0; i < config[b]; ++i)
        x = layer(f / ("denseblock" + number) / ("denselayer" + std::to_string(i + 1)) / "layers",
                  x);
      if (b + 1 == config.size()) break;
      const Scope t = f / ("transition" + number);
      x = bare_conv(t / "conv", norm_relu(t / "norm", x), x.channels / 2, 1, 1);
      x = avg_pool(x);
    }
    x = global_avg_pool(norm_relu(f / "norm5", x));
    return {linear(s / "class_layers.out", x, p.out_channels, {.bias_init = Init::fill(0)})};
  }

 private:
  std::vector<std::int64_t> blocks() const {
    const auto& usual = dense_kinds[kind].blocks;
    return p.block_config.value_or(std::vector<std::int64_t>(usual, usual + 4));
  }
  static Value bare_conv(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel,
                         std::int64_t stride) {
    return conv(s, x, out,
                {.kernel = kernel, .stride = stride, .bias = false, .init = Init::kaiming()});
  }
  static Value norm_relu(const Scope& s, const Value& x) { return relu(norm(s, x)); }
  Value layer(const Scope& s, const Value& x) const {
    Value y = bare_conv(s / "conv1", norm_relu(s / "norm1", x), p.bn_size * p.growth_rate, 1, 1);
    y = bare_conv(s / "conv2", norm_relu(s / "norm2", y), p.growth_rate, 3, 1);
    if (p.dropout_prob > 0)
      y = x.axes == 1 ? dropout(y, p.dropout_prob)
                      : dropout_channels(y, p.dropout_prob, ++dropouts_);
    return concat({x, y});
  }
  mutable std::uint64_t dropouts_ = 0;

  // The first convolution and the pool halve, and each transition does.
  std::string unfit(at::IntArrayRef extents) const override {
    const std::int64_t least = std::int64_t{1} << (blocks().size() + 1);
    for (const std::int64_t n : extents)
      if (n < least)
        return "halves images too often for an extent of " + std::to_string(n) + "; it takes " +
               std::to_string(least) + " or more";
    return "";
  }
};

const RegisterNetwork<DenseNet<0>> densenet121;
const RegisterNetwork<DenseNet<1>> densenet169;
const RegisterNetwork<DenseNet<2>> densenet201;
const RegisterNetwork<DenseNet<3>> densenet264;

}  // namespace
}  // namespace sluice
