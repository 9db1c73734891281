// resnet18, 34, 50: MONAI's ResNet (monai.networks.nets.resnet 1.6.1), 2-D or 3-D, with its
// parameter names. He et al. 2016; Hara, Kataoka, Satoh 2018.
//
//   x ─ conv 7 ─ norm ─ relu ─ max pool 3 / 2 ─ layer 1 ─ layer 2 / 2 ─ layer 3 / 2 ─ layer 4 / 2
//     ─ mean over all voxels ─ linear ─▶ logits [N, classes]
//   a layer's block:  relu(norm(conv(...)) + x), of two convolutions 3, or of 1, 3 and 1
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct Kind {
  int layers;
  std::int64_t blocks[4];
  bool bottleneck;
};
constexpr Kind kinds[] = {
    {18, {2, 2, 2, 2}, false}, {34, {3, 4, 6, 3}, false}, {50, {3, 4, 6, 3}, true}};

struct ResNetParams : ImageNet {
  std::int64_t conv1_t_size = 7, conv1_t_stride = 1;
  bool no_max_pool = false, bias_downsample = true;
  double widen_factor = 1;
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
        .param("conv1_t_size", &Params::conv1_t_size, "Kernel of the first convolution, odd.")
        .at_least(1)
        .param("conv1_t_stride", &Params::conv1_t_stride, "Its stride.")
        .at_least(1)
        .param("no_max_pool", &Params::no_max_pool, "Leaves the first pool out.")
        .param("bias_downsample", &Params::bias_downsample,
               "The convolutions beside blocks that halve have a bias.")
        .param("widen_factor", &Params::widen_factor, "Factor of all channels.")
        .above(0);
  }

  Values build(const Scope& s, const Value& image) const {
    if (p.conv1_t_size % 2 == 0) this->refuse("conv1_t_size must be odd");
    const auto planes = [&](int level) {
      return static_cast<std::int64_t>(static_cast<double>(64 << level) * p.widen_factor);
    };
    Value x = bare_conv(s / "conv1", image, planes(0), p.conv1_t_size, p.conv1_t_stride);
    x = relu(norm(s / "bn1", x));
    if (!p.no_max_pool) x = max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    for (int level = 0; level < 4; ++level)
      for (std::int64_t b = 0; b < kinds[kind].blocks[level]; ++b)
        x = block(s / ("layer" + std::to_string(level + 1)) / b, x, planes(level),
                  level > 0 && b == 0 ? 2 : 1);
    return {linear(s / "fc", global_avg_pool(x), p.out_channels, {.bias_init = Init::fill(0)})};
  }

 private:
  static Value bare_conv(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel,
                         std::int64_t stride, bool bias = false) {
    return conv(s, x, out,
                {.kernel = kernel, .stride = stride, .bias = bias, .init = Init::kaiming_out()});
  }

  Value block(const Scope& s, const Value& x, std::int64_t planes, std::int64_t stride) const {
    const bool deep = kinds[kind].bottleneck;
    const std::int64_t out = deep ? 4 * planes : planes;
    Value y = bare_conv(s / "conv1", x, planes, deep ? 1 : 3, deep ? 1 : stride);
    y = relu(norm(s / "bn1", y));
    y = norm(s / "bn2", bare_conv(s / "conv2", y, planes, 3, deep ? stride : 1));
    if (deep) y = norm(s / "bn3", bare_conv(s / "conv3", relu(y), out, 1, 1));
    if (stride == 1 && x.channels == out) return relu(y + x);
    const Scope beside = s / "downsample";
    return relu(y + norm(beside / 1, bare_conv(beside / 0, x, out, 1, stride, p.bias_downsample)));
  }
};

const RegisterNetwork<ResNet<0>> resnet18;
const RegisterNetwork<ResNet<1>> resnet34;
const RegisterNetwork<ResNet<2>> resnet50;

}  // namespace
}  // namespace sluice
