// resnet18, 34, 50: MONAI's ResNet (monai.networks.nets.resnet 1.6.1), 2-D or 3-D, with its
// parameter names. He et al. 2016; Hara, Kataoka, Satoh 2018.
//
//   x ─ conv 7 ─ norm ─ relu ─ max pool 3 / 2 ─ layer 1 ─ layer 2 / 2 ─ layer 3 / 2 ─ layer 4 / 2
//     ─ mean over all places ─ linear ─▶ logits [N, classes]
//   a layer's block:  relu(norm(conv(...)) + x), of two convolutions 3, or of 1, 3 and 1
#include "nodes/network/program_network.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

struct ResNet : ProgramNetwork {
  struct Params {
    std::int64_t spatial_dims = 3, in_channels = 3, out_channels = 400;
    std::int64_t conv1_t_size = 7, conv1_t_stride = 1;
    bool no_max_pool = false, bias_downsample = true;
    double widen_factor = 1;
    std::string precision = "float32";
  };

  static Spec spec_of(const std::string& name) {
    return Spec::network(name, "ResNet-" + name.substr(6) +
                                   " for classes of whole images, 2-D or 3-D (MONAI's ResNet).")
        .param("spatial_dims", &Params::spatial_dims, "2 or 3.")
        .range(2, 3)
        .param("in_channels", &Params::in_channels, "Channels of the image (n_input_channels).")
        .at_least(1)
        .param("out_channels", &Params::out_channels,
               "Classes (num_classes); the output is logits [N, classes].")
        .at_least(1)
        .param("conv1_t_size", &Params::conv1_t_size, "Kernel of the first convolution, odd.")
        .at_least(1)
        .param("conv1_t_stride", &Params::conv1_t_stride, "Its stride.")
        .at_least(1)
        .param("no_max_pool", &Params::no_max_pool, "Leaves the first pool out.")
        .param("bias_downsample", &Params::bias_downsample,
               "The convolutions beside blocks that halve have a bias.")
        .param("widen_factor", &Params::widen_factor, "Factor of all channels.")
        .above(0)
        .param("precision", &Params::precision,
               "What convolutions and activations compute in; weights stay float32.")
        .choices(precisions)
        .gives("logits", Form::any)
        .dtype("float32");
  }

  ResNet(const char* name, const Params& params, const Sizes& blocks, bool bottleneck)
      : p(params), name_(name), bottleneck_(bottleneck) {
    if (p.conv1_t_size % 2 == 0)
      throw Error(Exit::usage, std::string(name) + ": conv1_t_size must be odd");
    program.compute = compute_type(p.precision);
    const auto planes = [&](int level) {
      return static_cast<std::int64_t>(static_cast<double>(64 << level) * p.widen_factor);
    };
    channels_ = planes(0);
    int x = conv("conv1", 0, p.in_channels, channels_, p.conv1_t_size, p.conv1_t_stride, false);
    x = norm("bn1", x, channels_, true);
    if (!p.no_max_pool) x = program.max_pool(x, every(3), every(2), every(1));
    for (int level = 0; level < 4; ++level)
      for (std::int64_t b = 0; b < blocks[static_cast<std::size_t>(level)]; ++b)
        x = block("layer" + std::to_string(level + 1) + "." + std::to_string(b), x, planes(level),
                  level > 0 && b == 0 ? 2 : 1);
    x = program.linear(program.global_avg_pool(x), "fc", channels_, p.out_channels);
    program.parameters.back().init = Program::Init::zeros;
    program.finish(x);
  }

 private:
  Sizes every(std::int64_t n) const { return Sizes(static_cast<std::size_t>(p.spatial_dims), n); }

  int conv(const std::string& name, int x, std::int64_t in, std::int64_t out, std::int64_t kernel,
           std::int64_t stride, bool bias) {
    const ConvSpec spec{false, in, out, every(kernel), every(stride), every(kernel / 2), every(0)};
    const auto weight = program.parameters.size();
    x = program.conv(x, name, spec, bias, false).value;
    auto& q = program.parameters[weight];
    q.init = Program::Init::kaiming;
    q.fan_in = q.tensor.numel() / in;  // mode "fan_out"
    return x;
  }

  int norm(const std::string& name, int x, std::int64_t channels, bool relu) {
    Program::NormActSpec s;
    s.norm = Norm::batch;
    s.norm_name = name;
    if (relu) s.fixed_slope = 0;
    return program.norm_act(x, channels, s);
  }

  int block(const std::string& name, int x, std::int64_t planes, std::int64_t stride) {
    const std::int64_t out = bottleneck_ ? 4 * planes : planes;
    int y = x;
    if (bottleneck_) {
      y = norm(name + ".bn1", conv(name + ".conv1", y, channels_, planes, 1, 1, false), planes,
               true);
      y = norm(name + ".bn2", conv(name + ".conv2", y, planes, planes, 3, stride, false), planes,
               true);
      y = norm(name + ".bn3", conv(name + ".conv3", y, planes, out, 1, 1, false), out, false);
    } else {
      y = norm(name + ".bn1", conv(name + ".conv1", y, channels_, planes, 3, stride, false), planes,
               true);
      y = norm(name + ".bn2", conv(name + ".conv2", y, planes, planes, 3, 1, false), out, false);
    }
    int shortcut = x;
    if (stride != 1 || channels_ != out)
      shortcut = norm(name + ".downsample.1",
                      conv(name + ".downsample.0", x, channels_, out, 1, stride, p.bias_downsample),
                      out, false);
    channels_ = out;
    return program.relu(program.add(y, shortcut));
  }

  void check_input(const at::Tensor& x) const override {
    require_input(name_, x, p.spatial_dims, p.in_channels);
  }

  Params p;
  const char* name_;
  bool bottleneck_;
  std::int64_t channels_ = 0;
};

struct ResNet18 final : ResNet {
  using Params = ResNet::Params;
  static Spec spec() { return spec_of("resnet18"); }
  explicit ResNet18(const Params& p) : ResNet("resnet18", p, {2, 2, 2, 2}, false) {}
};
struct ResNet34 final : ResNet {
  using Params = ResNet::Params;
  static Spec spec() { return spec_of("resnet34"); }
  explicit ResNet34(const Params& p) : ResNet("resnet34", p, {3, 4, 6, 3}, false) {}
};
struct ResNet50 final : ResNet {
  using Params = ResNet::Params;
  static Spec spec() { return spec_of("resnet50"); }
  explicit ResNet50(const Params& p) : ResNet("resnet50", p, {3, 4, 6, 3}, true) {}
};

const Register<ResNet18> resnet18;
const Register<ResNet34> resnet34;
const Register<ResNet50> resnet50;

}  // namespace
}  // namespace sluice
