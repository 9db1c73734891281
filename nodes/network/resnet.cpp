// resnet10 to resnet200: MONAI's ResNet (monai.networks.nets.resnet 1.6.1), 2-D or 3-D, with its
// parameter names. He et al. 2016; Hara, Kataoka, Satoh 2018.
//
//   x ─ conv 7 ─ norm ─ relu ─ max pool 3 / 2 ─ layer 1 ─ layer 2 / 2 ─ layer 3 / 2 ─ layer 4 / 2
//     ─ mean over all voxels ─ linear ─▶ logits [N, classes]
//   a layer's block:  relu(norm(conv(...)) + x), of two convolutions 3, or of 1, 3 and 1
// As in MONAI, `act` and `norm` are those of the first convolution alone, and shortcut A passes no
// gradient.
#include <ATen/ATen.h>

#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct Kind {
  int layers;
  std::int64_t blocks[4];
  bool bottleneck;
};
constexpr Kind kinds[] = {{10, {1, 1, 1, 1}, false},  {18, {2, 2, 2, 2}, false},
                          {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
                          {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
                          {200, {3, 24, 36, 3}, true}};

struct ResNetParams : ImageNet {
  std::vector<std::int64_t> conv1_t_size{7}, conv1_t_stride{1};
  bool no_max_pool = false, feed_forward = true, bias_downsample = true;
  std::string shortcut_type = "B";
  double widen_factor = 1;
  Json act = "relu", norm = "batch";
  ResNetParams() {
    in_channels = 3;
    out_channels = 400;
  }
};

template <int kind>
struct ResNet final : ImageNetwork<ResNet<kind>> {
  using Params = ResNetParams;
  Params p;

  static Spec spec() {
    const std::string layers = std::to_string(kinds[kind].layers);
    return class_net<Params>(
               "resnet" + layers,
               "ResNet-" + layers +
                   " for classes of whole images, 2-D or 3-D (MONAI's ResNet, whose "
                   "n_input_channels and num_classes are in_channels and out_channels).",
               false)
        .param("conv1_t_size", &Params::conv1_t_size,
               "Kernel of the first convolution, odd: a number or one an axis.")
        .at_least(1)
        .param("conv1_t_stride", &Params::conv1_t_stride, "Its stride: a number or one an axis.")
        .at_least(1)
        .param("no_max_pool", &Params::no_max_pool, "Leaves the first pool out.")
        .param("shortcut_type", &Params::shortcut_type,
               "Beside blocks that change the size: B, a convolution with norm; A, every other "
               "voxel and zeros as further channels, without a gradient.")
        .choices({"A", "B"})
        .param("bias_downsample", &Params::bias_downsample, "The convolutions of B have a bias.")
        .param("feed_forward", &Params::feed_forward,
               "The last layer; without it the output is the features [N, C].")
        .param("act", &Params::act, "After the first norm: a name, or [name, {arguments}].")
        .param("norm", &Params::norm, "The first norm: a name, or [name, {arguments}].")
        .param("widen_factor", &Params::widen_factor, "Factor of all channels.")
        .above(0);
  }

  Values build(const Scope& s, const Value& image) const {
    for (const std::int64_t k : p.conv1_t_size)
      if (k % 2 == 0) this->refuse("conv1_t_size must be odd");
    const Act first = act_of(p.act);
    const auto planes = [&](int level) {
      return static_cast<std::int64_t>(static_cast<double>(64 << level) * p.widen_factor);
    };
    Value x = bare_conv(s / "conv1", image, planes(0), p.conv1_t_size, p.conv1_t_stride);
    x = norm(s / "bn1", x, norm_of(p.norm));
    x = first.kind == Act::Kind::relu ? relu(x) : act(s / "act", x, first);
    if (!p.no_max_pool) x = max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    for (int level = 0; level < 4; ++level)
      for (std::int64_t b = 0; b < kinds[kind].blocks[level]; ++b)
        x = block(s / ("layer" + std::to_string(level + 1)) / b, x, planes(level),
                  level > 0 && b == 0 ? 2 : 1);
    x = global_avg_pool(x);
    if (!p.feed_forward) return {x};
    return {linear(s / "fc", x, p.out_channels, {.bias_init = Init::fill(0)})};
  }

 private:
  static Value bare_conv(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
                         const PerAxis& stride, bool bias = false) {
    return conv(s, x, out,
                {.kernel = kernel, .stride = stride, .bias = bias, .init = Init::kaiming_out()});
  }

  static Value shortcut_a(const Value& x, std::int64_t out, std::int64_t stride) {
    const auto function = [=](In t) {
      at::Tensor y = t[0].detach();
      std::vector<std::int64_t> pads;  // last axis first, the channels' last
      for (std::int64_t a = y.dim() - 1; a > 1; --a) {
        y = y.slice(a, 0, y.size(a), stride);
        pads.insert(pads.end(), {0, 0});
      }
      pads.insert(pads.end(), {0, out - y.size(1)});
      return at::constant_pad_nd(y, pads);
    };
    return x.op("shortcut_a", function, {.channels = out, .attributes = {{"stride", stride}}});
  }

  Value block(const Scope& s, const Value& x, std::int64_t planes, std::int64_t stride) const {
    const bool deep = kinds[kind].bottleneck;
    const std::int64_t out = deep ? 4 * planes : planes;
    Value y = bare_conv(s / "conv1", x, planes, deep ? 1 : 3, deep ? 1 : stride);
    y = relu(norm(s / "bn1", y));
    y = norm(s / "bn2", bare_conv(s / "conv2", y, planes, 3, deep ? stride : 1));
    if (deep) y = norm(s / "bn3", bare_conv(s / "conv3", relu(y), out, 1, 1));
    if (stride == 1 && x.channels == out) return relu(y + x);
    if (p.shortcut_type == "A") return relu(y + shortcut_a(x, out, stride));
    const Scope beside = s / "downsample";
    return relu(y + norm(beside / 1, bare_conv(beside / 0, x, out, 1, stride, p.bias_downsample)));
  }
};

const RegisterNetwork<ResNet<0>> resnet10;
const RegisterNetwork<ResNet<1>> resnet18;
const RegisterNetwork<ResNet<2>> resnet34;
const RegisterNetwork<ResNet<3>> resnet50;
const RegisterNetwork<ResNet<4>> resnet101;
const RegisterNetwork<ResNet<5>> resnet152;
const RegisterNetwork<ResNet<6>> resnet200;

}  // namespace
}  // namespace sluice
