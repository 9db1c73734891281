// densenet121, 169, 201, 264: MONAI's DenseNet (monai.networks.nets.DenseNet 1.6.1), 2-D or 3-D,
// with its parameter names. Huang et al. 2017.
//
//   x ─ conv 7 / 2 ─ norm ─ relu ─ max pool 3 / 2 ─ block ─ transition ─ block ─ ... ─ norm ─ relu
//     ─ mean over all places ─ linear ─▶ logits [N, classes]
//   block: layers of norm, relu, conv 1, norm, relu, conv 3, each appended to what it read
//   transition: norm, relu, conv 1 to half of the channels, average pool 2
#include "nodes/network/program_network.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

struct DenseNet : ProgramNetwork {
  struct Params {
    std::int64_t spatial_dims = 3, in_channels = 1, out_channels = 2;
    std::int64_t init_features = 64, growth_rate = 32, bn_size = 4;
    std::optional<Sizes> block_config;
    double dropout_prob = 0;
    std::string precision = "float32";
  };

  static Spec spec_of(const std::string& name, const std::string& blocks) {
    return Spec::network(name, "DenseNet-" + name.substr(8) +
                                   " for classes of whole images, 2-D or 3-D (MONAI's DenseNet).")
        .param("spatial_dims", &Params::spatial_dims, "2 or 3.")
        .range(2, 3)
        .required()
        .param("in_channels", &Params::in_channels, "Channels of the image.")
        .at_least(1)
        .required()
        .param("out_channels", &Params::out_channels, "Classes; the output is logits [N, classes].")
        .at_least(1)
        .required()
        .param("init_features", &Params::init_features, "Channels of the first convolution.")
        .at_least(1)
        .param("growth_rate", &Params::growth_rate, "Channels that each layer adds.")
        .at_least(1)
        .param("block_config", &Params::block_config, "Layers of each block; null: " + blocks + ".")
        .at_least(1)
        .param("bn_size", &Params::bn_size, "Channels between a layer's convolutions, in growths.")
        .at_least(1)
        .param("dropout_prob", &Params::dropout_prob,
               "Probability that a value which a layer adds becomes 0 in training.")
        .range(0, 0.99)
        .param("precision", &Params::precision,
               "What convolutions and activations compute in; weights stay float32.")
        .choices(precisions)
        .gives("logits", Form::any)
        .dtype("float32");
  }

  DenseNet(const char* name, const Params& params, const Sizes& blocks)
      : p(params), name_(name), ones_(static_cast<std::size_t>(p.spatial_dims), 1) {
    program.compute = compute_type(p.precision);
    const Sizes layers = p.block_config.value_or(blocks);
    std::int64_t channels = p.init_features;
    int x = conv("features.conv0", 0, p.in_channels, channels, 7, 2);
    x = norm_relu("features.norm0", x, channels);
    x = program.max_pool(x, every(3), every(2), every(1));
    for (std::size_t b = 0; b < layers.size(); ++b) {
      x = block("features.denseblock" + std::to_string(b + 1), x, channels, layers[b]);
      channels += layers[b] * p.growth_rate;
      if (b + 1 == layers.size()) break;
      x = transition("features.transition" + std::to_string(b + 1), x, channels);
      channels /= 2;
    }
    x = norm_relu("features.norm5", x, channels);
    x = program.linear(program.global_avg_pool(x), "class_layers.out", channels, p.out_channels);
    program.parameters.back().init = Program::Init::zeros;
    program.finish(x);
  }

 private:
  Sizes every(std::int64_t n) const { return Sizes(ones_.size(), n); }

  int conv(const std::string& name, int x, std::int64_t in, std::int64_t out, std::int64_t kernel,
           std::int64_t stride) {
    const ConvSpec spec{false, in, out, every(kernel), every(stride), every(kernel / 2), every(0)};
    x = program.conv(x, name, spec, false, false).value;
    program.parameters.back().init = Program::Init::kaiming;
    return x;
  }

  int norm_relu(const std::string& name, int x, std::int64_t channels) {
    Program::NormActSpec s;
    s.norm = Norm::batch;
    s.norm_name = name;
    s.fixed_slope = 0;
    return program.norm_act(x, channels, s);
  }

  int block(const std::string& name, int x, std::int64_t channels, std::int64_t layers) {
    const std::int64_t between = p.bn_size * p.growth_rate;
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string layer = name + ".denselayer" + std::to_string(i + 1) + ".layers.";
      int y = norm_relu(layer + "norm1", x, channels);
      y = conv(layer + "conv1", y, channels, between, 1, 1);
      y = norm_relu(layer + "norm2", y, between);
      y = conv(layer + "conv2", y, between, p.growth_rate, 3, 1);
      if (p.dropout_prob > 0) y = program.dropout(y, p.dropout_prob);
      x = program.concat(x, y, channels);
      channels += p.growth_rate;
    }
    return x;
  }

  int transition(const std::string& name, int x, std::int64_t channels) {
    x = norm_relu(name + ".norm", x, channels);
    x = conv(name + ".conv", x, channels, channels / 2, 1, 1);
    return program.avg_pool(x, every(2), every(2));
  }

  void check_input(const at::Tensor& x) const override {
    require_input(name_, x, p.spatial_dims, p.in_channels);
    const std::int64_t least = least_extent();
    for (std::int64_t d = 2; d < x.dim(); ++d)
      if (x.size(d) < least)
        throw DataError(std::string(name_) + " halves images too often for an extent of " +
                        std::to_string(x.size(d)) + "; it takes " + std::to_string(least) +
                        " or more");
  }

  // The first convolution and the pool halve, and each transition does.
  std::int64_t least_extent() const {
    return std::int64_t{1} << (p.block_config ? p.block_config->size() + 1 : 5);
  }

  Params p;
  const char* name_;
  Sizes ones_;
};

struct DenseNet121 final : DenseNet {
  using Params = DenseNet::Params;
  static Spec spec() { return spec_of("densenet121", "6, 12, 24, 16"); }
  explicit DenseNet121(const Params& p) : DenseNet("densenet121", p, {6, 12, 24, 16}) {}
};
struct DenseNet169 final : DenseNet {
  using Params = DenseNet::Params;
  static Spec spec() { return spec_of("densenet169", "6, 12, 32, 32"); }
  explicit DenseNet169(const Params& p) : DenseNet("densenet169", p, {6, 12, 32, 32}) {}
};
struct DenseNet201 final : DenseNet {
  using Params = DenseNet::Params;
  static Spec spec() { return spec_of("densenet201", "6, 12, 48, 32"); }
  explicit DenseNet201(const Params& p) : DenseNet("densenet201", p, {6, 12, 48, 32}) {}
};
struct DenseNet264 final : DenseNet {
  using Params = DenseNet::Params;
  static Spec spec() { return spec_of("densenet264", "6, 12, 64, 48"); }
  explicit DenseNet264(const Params& p) : DenseNet("densenet264", p, {6, 12, 64, 48}) {}
};

const Register<DenseNet121> densenet121;
const Register<DenseNet169> densenet169;
const Register<DenseNet201> densenet201;
const Register<DenseNet264> densenet264;

}  // namespace
}  // namespace sluice
