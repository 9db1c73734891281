// daf3d: MONAI's DAF3D (monai.networks.nets.DAF3D 1.6.1), 3-D, with its parameter names. Wang et
// al. 2019.
//
//   x ─ resnet of groups and dilations ─ four layers ─ pyramid ─ each with attention to all ─
//   refine
//     ─ dilated convolutions beside each other ─▶ output 0: logits
//   further outputs, of the image's extents: eight that supervise the layers before and after
//   attention, then with visual_output the four maps of attention
#include <ATen/ATen.h>

#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct Daf3d final : ImageNetwork<Daf3d> {
  struct Params : ImageNet {
    bool visual_output = false;
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "daf3d",
        "Attention over the layers of a 3-D resnet (MONAI's DAF3D). Further outputs, by the model "
        "node's output_keys: four of the layers, four of the layers with attention, and with "
        "visual_output four of the attention.",
        true);
    leave_out(s, {"spatial_dims"});
    return s.param("visual_output", &Params::visual_output, "Maps of attention are outputs too.");
  }

  Values build(const Scope& s, const Value& image) const {
    const Values layers = pyramid(s / "backbone_with_fpn", image);
    const Value fused = fuse(s / "fuse", concat(layers));
    Values refined, maps;
    for (const Value& layer : layers) {
      maps.push_back(attentive(s / "attention.attentive_map", concat({layer, fused}), true));
      refined.push_back(
          attentive(s / "attention.refine", concat({layer, product(maps.back(), fused)}), false));
    }
    const Value y = aspp(s / "aspp", unit(s / "refine", concat(refined), 64, 1));
    const auto predict = [&](const char* name, const Value& x) {
      return resized_linear(conv(s / name, x, p.out_channels, {.kernel = 1}), image, false);
    };
    Values out{predict("predict2", y)};
    for (const Value& layer : layers) out.push_back(predict("predict1", layer));
    for (const Value& x : refined) out.push_back(predict("predict2", x));
    if (p.visual_output)
      for (const Value& map : maps) out.push_back(predict("predict2", map));
    return out;
  }

 private:
  static NormOptions groups() { return {.kind = Norm::group, .groups = 32}; }
  static Value grouped(const Scope& s, const Value& x) { return norm(s, x, groups()); }
  // MONAI's Convolution with group norm and PReLU.
  static Value unit(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel,
                    bool activates = true) {
    Adn adn{.norm = groups()};
    if (activates) adn.act = Act{Act::Kind::prelu, 0.25};
    return convolution(s, x, out, {.kernel_size = kernel, .adn = adn});
  }
  static Value fuse(const Scope& s, const Value& x) {
    return unit(s / 2, unit(s / 1, unit(s / 0, x, 64, 1), 64, 3), 64, 3);
  }
  static Value attentive(const Scope& s, const Value& x, bool map) {
    const Value y = unit(s / 1, unit(s / 0, x, 64, 1), 64, 3);
    if (!map) return unit(s / 2, y, 64, 3);
    return convolution(s / 2, y, 64, {.adn = {.act = Act{Act::Kind::sigmoid}}});
  }
  static Value aspp(const Scope& s, const Value& x) {
    constexpr std::int64_t dilations[]{1, 6, 12, 18};
    Values all;
    for (std::int64_t i = 0; i < 4; ++i) {
      const Scope at = s / "convs" / i;
      const std::int64_t d = dilations[i];
      const Value y =
          conv(at / "conv", x, 64,
               {.dilation = std::vector<std::int64_t>{1, d, d}, .init = Init::kaiming()});
      all.push_back(grouped(at / "adn.N", y));
    }
    return unit(s / "conv_k1", concat(all), 64, 1, false);
  }

  // Bottlenecks that widen twice, whose second convolution has 32 groups.
  static Value layer(const Scope& s, Value x, std::int64_t blocks, std::int64_t planes,
                     const PerAxis& stride, std::int64_t dilation) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const Scope at = s / b;
      const PerAxis step = b == 0 ? stride : PerAxis(1);
      const ConvOptions one{.kernel = 1, .bias = false};
      Value y = relu(norm(at / "bn1", conv(at / "conv1", x, planes, one)));
      y = conv(at / "conv2", y, planes,
               {.stride = step, .groups = 32, .dilation = dilation, .bias = false});
      y = norm(at / "bn3", conv(at / "conv3", relu(norm(at / "bn2", y)), 2 * planes, one));
      // MONAI makes this activation and takes another.
      (at / "relu").parameter("weight", {1}, Init::fill(0.25));
      Value beside = x;
      if (!step.is_one() || x.channels != 2 * planes)
        beside = norm(at / "downsample.1", conv(at / "downsample.0", x, 2 * planes,
                                                {.kernel = 1, .stride = step, .bias = false}));
      x = relu(y + beside);
    }
    return x;
  }

  static Values pyramid(const Scope& s, const Value& image) {
    const Scope body = s / "body", fpn = s / "fpn";
    const PerAxis flat{1, 2, 2};
    Value x = conv(body / "layer0.0", image, 64, {.kernel = 7, .stride = flat, .bias = false});
    x = relu(grouped(body / "layer0.1", x));
    x = max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    Values levels{layer(body / "layer1.1", x, 3, 128, 1, 1)};
    levels.push_back(layer(body / "layer2", levels.back(), 4, 256, flat, 1));
    levels.push_back(layer(body / "layer3", levels.back(), 6, 512, 1, 2));
    levels.push_back(layer(body / "layer4", levels.back(), 3, 1024, 1, 2));

    const auto inner = [&](std::int64_t i) {
      // MONAI makes this convolution and does not take it.
      const Scope unread = fpn / "layer_blocks" / i;
      unread.parameter("weight", {128, 128, 3, 3, 3}, Init{}, 128 * 27);
      unread.parameter("bias", {128}, Init::fill(0));
      return unit(fpn / "inner_blocks" / i, levels[static_cast<std::size_t>(i)], 128, 1);
    };
    Values all(4);
    all[3] = inner(3);
    for (std::int64_t i = 2; i >= 0; --i) {
      const Value side = inner(i);
      const auto at = static_cast<std::size_t>(i);
      all[at] = side + resized_linear(all[at + 1], side, false);
    }
    for (std::size_t i = 1; i < 4; ++i) all[i] = resized_linear(all[i], levels[0], false);
    return all;
  }
};

const RegisterNetwork<Daf3d> registered;

}  // namespace
}  // namespace sluice
