// senet154, se_resnet50, 101, 152, se_resnext50, 101: MONAI's SENet (monai.networks.nets.senet
// 1.6.1), 2-D or 3-D, with its parameter names. Hu, Shen, Sun 2018.
//
//   x ─ conv 7 / 2 (or three of 3) ─ max pool 3 / 2 ─ layer 1 ─ layer 2 / 2 ─ layer 3 / 2 ─ layer 4
//     / 2 ─ mean over all voxels ─ dropout ─ linear ─▶ logits [N, classes]
//   a layer's block:  relu(squeeze and excitation(convolutions 1, 3, 1) + project(x))
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

enum class SeBlock { senet, resnet, resnext };
struct SeKind {
  const char* name;
  SeBlock block;
  std::int64_t layers[4], groups;
  double dropout;
};
constexpr SeKind se_kinds[] = {{"senet154", SeBlock::senet, {3, 8, 36, 3}, 64, 0.2},
                               {"se_resnet50", SeBlock::resnet, {3, 4, 6, 3}, 1, 0},
                               {"se_resnet101", SeBlock::resnet, {3, 4, 23, 3}, 1, 0.2},
                               {"se_resnet152", SeBlock::resnet, {3, 8, 36, 3}, 1, 0.2},
                               {"se_resnext50", SeBlock::resnext, {3, 4, 6, 3}, 32, 0},
                               {"se_resnext101", SeBlock::resnext, {3, 4, 23, 3}, 32, 0}};

template <int kind>
struct SeNet final : ImageNetwork<SeNet<kind>> {
  static constexpr const SeKind& it = se_kinds[kind];
  static constexpr bool large = it.block == SeBlock::senet;
  struct Params : ImageNet {
    std::vector<std::int64_t> layers{it.layers, it.layers + 4};
    std::int64_t groups = it.groups, reduction = 16, inplanes = large ? 128 : 64;
    std::int64_t downsample_kernel_size = large ? 3 : 1;
    std::optional<double> dropout_prob;
    bool input_3x3 = large;
    Params() {
      out_channels = 1000;
      if (it.dropout > 0) dropout_prob = it.dropout;
    }
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    Spec s = class_net<Params>(it.name,
                               "ResNet with squeeze and excitation for classes of whole images, "
                               "2-D or 3-D (MONAI's SENet; num_classes is out_channels).");
    declared(s, "out_channels").required = false;
    return s.param("layers", &Params::layers, "Blocks of each of the four layers.")
        .at_least(1)
        .length(4, 4)
        .param("groups", &Params::groups, "Of the convolutions 3 of the blocks.")
        .at_least(1)
        .param("reduction", &Params::reduction, "By which channels are squeezed.")
        .at_least(1)
        .param("dropout_prob", &Params::dropout_prob,
               "Probability that a feature becomes 0 in training; null: none.")
        .range(0, 0.99)
        .param("inplanes", &Params::inplanes, "Channels that layer 1 reads.")
        .at_least(1)
        .param("downsample_kernel_size", &Params::downsample_kernel_size,
               "Beside the first block of layers 2 to 4, odd.")
        .at_least(1)
        .param("input_3x3", &Params::input_3x3, "Three convolutions 3 before the pool.");
  }

  Values build(const Scope& s, const Value& image) const {
    require_odd_kernels(p.downsample_kernel_size, "downsample_kernel_size");
    Value x = image;
    const auto first = [&](int i, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
      const ConvOptions o{
          .kernel = kernel, .stride = stride, .bias = false, .init = Init::kaiming()};
      const std::string number = std::to_string(i);
      const Scope at = s / "layer0";
      x = relu(norm(at / ("bn" + number), conv(at / ("conv" + number), x, out, o)));
    };
    first(1, p.input_3x3 ? 64 : p.inplanes, p.input_3x3 ? 3 : 7, 2);
    if (p.input_3x3) {
      first(2, 64, 3, 1);
      first(3, p.inplanes, 3, 1);
    }
    // MONAI's windows may reach over the end; after a ReLU zeros there change nothing.
    x = padded(x, std::vector<std::pair<std::int64_t, std::int64_t>>(p.spatial_dims, {0, 1}));
    x = max_pool(x, {.kernel = 3, .stride = 2});
    for (int level = 0; level < 4; ++level)
      for (std::int64_t b = 0; b < p.layers[level]; ++b)
        x = block(s / ("layer" + std::to_string(level + 1)) / b, x, std::int64_t{64} << level,
                  level > 0 && b == 0 ? 2 : 1, level > 0 ? p.downsample_kernel_size : 1);
    x = global_avg_pool(x);
    if (p.dropout_prob.value_or(0) > 0) x = dropout(x, *p.dropout_prob);
    return {linear(s / "last_linear", x, p.out_channels, {.bias_init = Init::fill(0)})};
  }

 private:
  Value unit(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel,
             std::int64_t stride, bool act = true, std::int64_t groups = 1) const {
    ConvolutionOptions o{.strides = stride, .kernel_size = kernel, .bias = false};
    o.adn.norm = NormOptions{};
    if (act) o.adn.act = Act{};
    o.init = Init::kaiming();
    o.groups = groups;
    return convolution(s, x, out, o);
  }

  Value block(const Scope& s, const Value& x, std::int64_t planes, std::int64_t stride,
              std::int64_t beside) const {
    constexpr bool strided_first = it.block == SeBlock::resnet;  // as in Caffe
    const std::int64_t out = 4 * planes;
    const std::int64_t wide = it.block == SeBlock::resnext ? planes / 16 * p.groups : planes;
    Value y = unit(s / "conv1", x, large ? 2 * planes : wide, 1, strided_first ? stride : 1);
    y = unit(s / "conv2", y, large ? out : wide, 3, strided_first ? 1 : stride, true, p.groups);
    y = unit(s / "conv3", y, out, 1, 1, false);
    if (out / p.reduction < 1) s.refuse("reduction must be at most " + std::to_string(out));
    const Scope fc = s / "se_layer.fc";
    Value z =
        relu(linear(fc / 0, global_avg_pool(y), out / p.reduction, {.bias_init = Init::fill(0)}));
    z = sigmoid(linear(fc / 2, z, out, {.bias_init = Init::fill(0)}));
    const bool same = stride == 1 && x.channels == out;
    return relu(product(y, z) + (same ? x : unit(s / "project", x, out, beside, stride, false)));
  }

  std::string unfit(at::IntArrayRef extents) const override { return unless_at_least(extents, 3); }
};

const RegisterNetwork<SeNet<0>> senet154;
const RegisterNetwork<SeNet<1>> se_resnet50;
const RegisterNetwork<SeNet<2>> se_resnet101;
const RegisterNetwork<SeNet<3>> se_resnet152;
const RegisterNetwork<SeNet<4>> se_resnext50;
const RegisterNetwork<SeNet<5>> se_resnext101;

}  // namespace
}  // namespace sluice
