// resnet10 to resnet200: MONAI's ResNet (monai.networks.nets.resnet 1.6.1), 2-D or 3-D, with its
// parameter names. He et al. 2016; Hara, Kataoka, Satoh 2018.
//
//   x ─ conv 7 ─ norm ─ relu ─ max pool 3 / 2 ─ layer 1 ─ layer 2 / 2 ─ layer 3 / 2 ─ layer 4 / 2
//     ─ mean over all voxels ─ linear ─▶ logits [N, classes]
//   a layer's block:  relu(norm(conv(...)) + x), of two convolutions 3, or of 1, 3 and 1
// As in MONAI, `act` and `norm` are those of the first convolution alone, and shortcut A passes no
// gradient.
#include "nodes/network/resnet_params.h"

namespace sluice {
namespace {

struct ResNetParams : ImageNet, ResNetBackbone {
  bool feed_forward = true;
  ResNetParams() {
    in_channels = 3;
    out_channels = 400;
  }
};

template <int layers>
struct ResNet final : ImageNetwork<ResNet<layers>> {
  using Params = ResNetParams;
  Params p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    const std::string number = std::to_string(layers);
    Spec s =
        class_net<Params>("resnet" + number,
                          "ResNet-" + number +
                              " for classes of whole images, 2-D or 3-D (MONAI's ResNet, whose "
                              "n_input_channels and num_classes are in_channels and out_channels).",
                          false);
    return add_resnet_params<Params>(s).param(
        "feed_forward", &Params::feed_forward,
        "The last layer; without it the output is the features [N, C].");
  }

  Values build(const Scope& s, const Value& image) const {
    const ResNetOptions o = resnet_options(p, layers);
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
