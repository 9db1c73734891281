// segresnet: MONAI's SegResNet (monai.networks.nets.SegResNet 1.6.1) with its parameter names,
// order and defaults. Myronenko 2018, without the autoencoder's branch.
//
//   x ─ convInit ─ blocks ──────────────────────────── + ─ blocks ─ norm, ReLU, 1x1 ─▶ logits
//                    └─ stride 2 ─ blocks ──── + ─ blocks ─ 1x1, x2 ─┘
//                                    └─ stride 2 ─ blocks ─ 1x1, x2 ─┘
#include "nodes/network/program_network.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

struct SegResNet final : ProgramNetwork {
  struct Params {
    std::int64_t spatial_dims = 3, init_filters = 8, in_channels = 1, out_channels = 2;
    std::optional<double> dropout_prob;
    std::int64_t num_groups = 8;
    bool use_conv_final = true;
    Sizes blocks_down{1, 2, 2, 4}, blocks_up{1, 1, 1};
    std::string precision = "float32";
  };

  static Spec spec() {
    return Spec::network("segresnet",
                         "Residual encoder and decoder, 2-D or 3-D (MONAI's SegResNet).")
        .param("spatial_dims", &Params::spatial_dims, "2 or 3.")
        .range(2, 3)
        .param("init_filters", &Params::init_filters,
               "Channels of the first level, doubled by each.")
        .at_least(1)
        .param("in_channels", &Params::in_channels, "Channels of the image.")
        .at_least(1)
        .param("out_channels", &Params::out_channels, "Channels of the output, logits.")
        .at_least(1)
        .param("dropout_prob", &Params::dropout_prob,
               "Probability that a channel behind the first convolution becomes 0 in training.")
        .range(0, 0.99)
        .param("num_groups", &Params::num_groups, "Groups of the group norms.")
        .at_least(1)
        .param("use_conv_final", &Params::use_conv_final, "Norm, ReLU and 1x1 at the end.")
        .param("blocks_down", &Params::blocks_down, "Residual blocks of every level, top first.")
        .at_least(1)
        .length(1)
        .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first.")
        .at_least(1)
        .length_of("blocks_down", -1)
        .param("precision", &Params::precision,
               "What convolutions and norms compute in; weights stay float32.")
        .choices(precisions);
  }

  explicit SegResNet(const Params& params) : p(params) {
    if (p.init_filters % p.num_groups != 0)
      throw Error(Exit::usage, "segresnet: init_filters is no multiple of num_groups");
    const std::size_t levels = p.blocks_down.size();
    if (p.blocks_up.size() + 1 != levels)
      throw Error(Exit::usage, "segresnet: blocks_up needs one entry fewer than blocks_down");
    declare();
    program.channels_last = false;
    program.whole_batches = true;
    program.compute = compute_type(p.precision);
    program.finish(build());
  }

 private:
  std::int64_t filters(std::size_t level) const { return p.init_filters << level; }
  // Channels of the level that up-step i leads to.
  std::int64_t above(std::size_t i) const { return filters(p.blocks_up.size() - 1 - i); }

  // MONAI's order of the parameters, which is not that of the forward pass.
  void declare() {
    declare_conv("convInit.conv", p.in_channels, filters(0), 3);
    for (std::size_t i = 0; i < p.blocks_down.size(); ++i) {
      if (i > 0) declare_conv(down(i, 0) + "conv", filters(i - 1), filters(i), 3);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b) declare_block(down(i, b), filters(i));
    }
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i)
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b) declare_block(up(i, b), above(i));
  }
  void declare_block(const std::string& name, std::int64_t channels) {
    for (const char* norm : {"norm1", "norm2"}) {
      program.parameter(name + norm + ".weight", {channels}, Program::Init::ones, 0);
      program.parameter(name + norm + ".bias", {channels}, Program::Init::zeros, 0);
    }
    for (const char* conv : {"conv1.conv", "conv2.conv"})
      declare_conv(name + conv, channels, channels, 3);
  }
  void declare_conv(const std::string& name, std::int64_t from, std::int64_t to,
                    std::int64_t side) {
    Sizes shape{to, from};
    shape.resize(static_cast<std::size_t>(2 + p.spatial_dims), side);
    std::int64_t fan_in = from;
    for (std::int64_t d = 0; d < p.spatial_dims; ++d) fan_in *= side;
    program.parameter(name + ".weight", shape, Program::Init::conv, fan_in);
  }
  static std::string down(std::size_t level, std::int64_t block) {
    return "down_layers." + std::to_string(level) + "." + std::to_string(block) + ".";
  }
  static std::string up(std::size_t level, std::int64_t block) {
    return "up_layers." + std::to_string(level) + "." + std::to_string(block) + ".";
  }

  int build() {
    const std::size_t levels = p.blocks_down.size();
    int x = conv(0, "convInit.conv", p.in_channels, filters(0), 3);
    if (p.dropout_prob) x = program.dropout_channels(x, *p.dropout_prob);
    std::vector<int> skips;
    for (std::size_t i = 0; i < levels; ++i) {
      if (i > 0) x = conv(x, down(i, 0) + "conv", filters(i - 1), filters(i), 3, 2);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b) x = block(x, down(i, b), filters(i));
      skips.push_back(x);
    }
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i) {
      const std::string name = "up_samples." + std::to_string(i) + ".0.conv";
      x = program.doubled(conv(x, name, 2 * above(i), above(i), 1));
      x = program.add(x, skips[levels - 2 - i]);
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b) x = block(x, up(i, b), above(i));
    }
    if (!p.use_conv_final) return x;
    x = program.group_norm_relu(x, "conv_final.0", filters(0), p.num_groups);
    return conv(x, "conv_final.2.conv", filters(0), p.out_channels, 1, 1, true);
  }
  int block(int x, const std::string& name, std::int64_t channels) {
    int y = program.group_norm_relu(x, name + "norm1", channels, p.num_groups);
    y = conv(y, name + "conv1.conv", channels, channels, 3);
    y = program.group_norm_relu(y, name + "norm2", channels, p.num_groups);
    return program.add(conv(y, name + "conv2.conv", channels, channels, 3), x);
  }
  int conv(int x, const std::string& name, std::int64_t from, std::int64_t to, std::int64_t side,
           std::int64_t stride = 1, bool bias = false) {
    const auto each = [&](std::int64_t v) {
      return Sizes(static_cast<std::size_t>(p.spatial_dims), v);
    };
    const ConvSpec spec{false, from, to, each(side), each(stride), each(side / 2), each(0)};
    return program.conv(x, name, spec, bias, false).value;
  }

  void check_input(const at::Tensor& x) const override {
    bool fits = x.dim() == p.spatial_dims + 2 && x.size(1) == p.in_channels;
    for (std::int64_t d = 2; fits && d < x.dim(); ++d)
      fits = x.size(d) % (std::int64_t{1} << (p.blocks_down.size() - 1)) == 0;
    if (fits) return;
    throw DataError("segresnet takes [N, " + std::to_string(p.in_channels) + "] and " +
                    std::to_string(p.spatial_dims) + " spatial axes that are multiples of " +
                    std::to_string(1 << (p.blocks_down.size() - 1)) + ", got " +
                    c10::str(x.sizes()));
  }

  Params p;
};

const Register<SegResNet> registered;

}  // namespace
}  // namespace sluice
