// resnet10 to resnet200: MONAI's ResNet (monai.networks.nets.resnet 1.6.1), 2-D or 3-D, with its
// parameter names. He et al. 2016; Hara, Kataoka, Satoh 2018.
//
//   x ─ conv 7 ─ norm ─ relu ─ max pool 3 / 2 ─ layer 1 ─ layer 2 / 2 ─ layer 3 / 2 ─ layer 4 / 2
//     ─ mean over all voxels ─ linear ─▶ logits [N, classes]
//   a layer's block:  relu(norm(conv(...)) + x), of two convolutions 3, or of 1, 3 and 1
// As in MONAI, `act` and `norm` are those of the first convolution alone, and shortcut A passes no
// gradient.
#include "kernels/net/resnet.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

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

template <int layers>
struct ResNet final : ImageNetwork<ResNet<layers>> {
  using Params = ResNetParams;
  Params p;

  static Spec spec() {
    const std::string number = std::to_string(layers);
    return class_net<Params>(
               "resnet" + number,
               "ResNet-" + number +
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
    const ResNetOptions o{.kind = resnet_kind(layers),
                          .conv1_size = p.conv1_t_size,
                          .conv1_stride = p.conv1_t_stride,
                          .max_pool = !p.no_max_pool,
                          .shortcut_a = p.shortcut_type == "A",
                          .bias_downsample = p.bias_downsample,
                          .widen_factor = p.widen_factor,
                          .act = act_of(p.act),
                          .norm = norm_of(p.norm)};
    const Value x = global_avg_pool(resnet_features(s, image, o).back());
    if (!p.feed_forward) return {x};
    return {linear(s / "fc", x, p.out_channels, {.bias_init = Init::fill(0)})};
  }
};

const RegisterNetwork<ResNet<10>> resnet10;
const RegisterNetwork<ResNet<18>> resnet18;
const RegisterNetwork<ResNet<34>> resnet34;
const RegisterNetwork<ResNet<50>> resnet50;
const RegisterNetwork<ResNet<101>> resnet101;
const RegisterNetwork<ResNet<152>> resnet152;
const RegisterNetwork<ResNet<200>> resnet200;

}  // namespace
}  // namespace sluice
