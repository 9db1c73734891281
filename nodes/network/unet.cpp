// unet: MONAI's UNet (monai.networks.nets.UNet 1.6.1), residual units and all, with its parameter
// names, order and defaults. Zhang, Liu, Wang 2018; Kerfoot et al. 2019.
//
//   x ── down 0 ──┬────────────────────────── concat ── up 0 ──▶ logits      model.0 .. model.2
//                 └─ down 1 ──┬──── concat ── up 1 ─┘                        model.1.submodule.*
//                             └─ bottom ─┘
#include "nodes/network/program_network.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

struct UNet final : ProgramNetwork {
  struct Params {
    std::int64_t spatial_dims = 3, in_channels = 1, out_channels = 2;
    Sizes channels;
    std::vector<Sizes> strides;
    Sizes kernel_size{3}, up_kernel_size{3};
    std::int64_t num_res_units = 0;
    std::string act = "PRELU", norm = "INSTANCE";
    double dropout = 0;
    bool bias = true;
    std::string adn_ordering = "NDA", precision = "float32";
    bool channels_last = true;
  };

  static Spec spec() {
    return Spec::network("unet", "U-Net with residual units, 2-D or 3-D (MONAI's UNet).")
        .param("spatial_dims", &Params::spatial_dims, "2 or 3.")
        .range(2, 3)
        .required()
        .param("in_channels", &Params::in_channels, "Channels of the image.")
        .at_least(1)
        .required()
        .param("out_channels", &Params::out_channels, "Channels of the output, logits.")
        .at_least(1)
        .required()
        .param("channels", &Params::channels, "Channels of every level, top first; two or more.")
        .at_least(1)
        .length(2)
        .required()
        .param("strides", &Params::strides,
               "Stride between levels, one fewer than channels; each a number or one a dimension.")
        .at_least(1)
        .length_of("channels", -1)
        .required()
        .param("kernel_size", &Params::kernel_size, "Odd; a number or one a dimension.")
        .at_least(1)
        .param("up_kernel_size", &Params::up_kernel_size, "The same for the upward path.")
        .at_least(1)
        .param("num_res_units", &Params::num_res_units,
               "Convolutions in a residual unit; 0: plain convolutions.")
        .at_least(0)
        .param("act", &Params::act, "Activation; PRELU has one learned slope, 0.25 at first.")
        .choices({"PRELU", "RELU", "LEAKYRELU"})
        .param("norm", &Params::norm, "INSTANCE (without parameters) or BATCH (with).")
        .choices({"INSTANCE", "BATCH"})
        .param("dropout", &Params::dropout, "Probability that a value becomes 0 in training.")
        .range(0, 0.99)
        .param("bias", &Params::bias, "Convolutions have a bias.")
        .param("adn_ordering", &Params::adn_ordering,
               "Order of Activation, Dropout and Normalisation; a letter left out is left out.")
        .param("precision", &Params::precision,
               "What convolutions and activations compute in; weights stay float32.")
        .choices(precisions)
        .param("channels_last", &Params::channels_last, "Memory layout; faster, same results.")
        .extents_multiple_of("strides");
  }

  explicit UNet(const Params& params) : p(params) {
    check();
    program.compute = compute_type(p.precision);
    program.channels_last = p.channels_last;
    program.finish(level("model.", 0, 0, p.in_channels, p.out_channels));
  }

  void check_input(const at::Tensor& x) const override {
    require_input("unet", x, p.spatial_dims, p.in_channels);
  }

 private:
  [[noreturn]] static void refuse(const std::string& why) {
    throw Error(Exit::usage, "unet: " + why);
  }

  void check() {
    const std::size_t dims = static_cast<std::size_t>(p.spatial_dims);
    if (p.channels.size() < 2) refuse("channels needs two levels or more");
    if (p.strides.size() != p.channels.size() - 1)
      refuse("strides needs one entry fewer than channels (" +
             std::to_string(p.channels.size() - 1) + "), found " +
             std::to_string(p.strides.size()));
    for (auto& s : p.strides) spread(s, dims, "strides");
    spread(p.kernel_size, dims, "kernel_size");
    spread(p.up_kernel_size, dims, "up_kernel_size");
    for (const auto& kernel : {p.kernel_size, p.up_kernel_size})
      for (auto k : kernel)
        if (k % 2 == 0) refuse("kernel sizes must be odd, found " + std::to_string(k));
    for (char c : p.adn_ordering)
      if (std::string("ADN").find(c) == std::string::npos)
        refuse("adn_ordering is made of A, D and N, found \"" + p.adn_ordering + "\"");
  }
  static void spread(Sizes& s, std::size_t dims, const char* name) {
    if (s.size() == 1) s.assign(dims, s[0]);
    if (s.size() != dims) refuse(std::string(name) + " needs one value or one a dimension");
  }

  static bool is_one(const Sizes& s) {
    for (auto v : s)
      if (v != 1) return false;
    return true;
  }

  // One level and all below it; `prefix` is "model." or "model.1.submodule.".
  int level(const std::string& prefix, std::size_t i, int x, std::int64_t in, std::int64_t out) {
    const std::int64_t c = p.channels[i];
    const Sizes ones(static_cast<std::size_t>(p.spatial_dims), 1);
    const bool top = i == 0;
    const int down = down_layer(prefix + "0", x, in, c, p.strides[i]);
    int below;
    std::int64_t below_channels;
    if (i + 2 < p.channels.size()) {
      below = level(prefix + "1.submodule.", i + 1, down, c, c);
      below_channels = c;
    } else {
      below_channels = p.channels[i + 1];
      below = down_layer(prefix + "1.submodule", down, c, below_channels, ones);
    }
    const int both = program.concat(down, below, c);
    const bool plain = p.num_res_units == 0;
    const int up = convolution(plain ? prefix + "2" : prefix + "2.0", both, c + below_channels, out,
                               p.strides[i], p.up_kernel_size, true, top && plain);
    return plain ? up : residual_unit(prefix + "2.1", up, out, out, ones, 1, top);
  }

  int down_layer(const std::string& name, int x, std::int64_t in, std::int64_t out,
                 const Sizes& stride) {
    return p.num_res_units == 0 ? convolution(name, x, in, out, stride, p.kernel_size, false, false)
                                : residual_unit(name, x, in, out, stride, p.num_res_units, false);
  }

  int residual_unit(const std::string& name, int x, std::int64_t in, std::int64_t out,
                    const Sizes& stride, std::int64_t units, bool last_conv_only) {
    const Sizes ones(stride.size(), 1);
    int y = x;
    for (std::int64_t u = 0; u < units; ++u)
      y = convolution(name + ".conv.unit" + std::to_string(u), y, u == 0 ? in : out, out,
                      u == 0 ? stride : ones, p.kernel_size, false,
                      last_conv_only && u == units - 1);
    int shortcut = x;
    if (in != out || !is_one(stride))
      shortcut = program
                     .conv(x, name + ".residual",
                           conv_spec(in, out, stride, is_one(stride) ? ones : p.kernel_size, false),
                           p.bias, false)
                     .value;
    return program.add(y, shortcut);
  }

  static ConvSpec conv_spec(std::int64_t in, std::int64_t out, const Sizes& stride,
                            const Sizes& kernel, bool transposed) {
    ConvSpec s{transposed, in, out, kernel, stride, {}, {}};
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      s.padding.push_back((kernel[d] - 1) / 2);
      s.output_padding.push_back(transposed ? stride[d] - 1 : 0);
    }
    return s;
  }

  // MONAI's Convolution: NAME.conv, then NAME.adn unless `conv_only`.
  int convolution(const std::string& name, int x, std::int64_t in, std::int64_t out,
                  const Sizes& stride, const Sizes& kernel, bool transposed, bool conv_only) {
    std::string order = conv_only ? "" : p.adn_ordering;
    if (p.dropout == 0) std::erase(order, 'D');
    const auto conv =
        program.conv(x, name + ".conv", conv_spec(in, out, stride, kernel, transposed), p.bias,
                     order.starts_with('N'));
    int y = conv.value;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i] == 'D') {
        y = program.dropout(y, p.dropout);
        continue;
      }
      Program::NormActSpec s;
      if (order[i] == 'N') {
        s.norm = p.norm == "BATCH" ? Norm::batch : Norm::instance;
        s.norm_name = name + ".adn.N";
        s.bias = i == 0 ? conv.bias : -1;
        if (i + 1 < order.size() && order[i + 1] == 'A') ++i;
      }
      if (order[i] == 'A') {
        if (p.act == "PRELU") s.slope_name = name + ".adn.A";
        if (p.act == "RELU") s.fixed_slope = 0;
        if (p.act == "LEAKYRELU") s.fixed_slope = 0.01;
      }
      y = program.norm_act(y, out, s);
    }
    return y;
  }

  Params p;
};

const Register<UNet> registered;

}  // namespace
}  // namespace sluice
