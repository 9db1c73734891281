// retina_net: MONAI's RetinaNet (monai.apps.detection.networks.retinanet_network 1.6.1) with the
// feature pyramid on a ResNet that its resnet_fpn_feature_extractor makes, and its parameter names.
// Lin et al. 2017.
//
//   x ─ ResNet: layer 1 ─ layer 2 ─ ...       each of returned_layers: conv 1, + the one below,
//                                             resized, conv 3; the last once more, every 2nd voxel
//   a level ─ (conv 3 ─ group norm ─ relu) 4 times ─ conv 3 ─▶ classes of each anchor
//          └─ the same with weights of its own ──────────────▶ what each anchor changes by
// All maps of classes come first, then those of boxes, as with MONAI's use_list_output.
#include <algorithm>
#include <cmath>

#include "nodes/network/resnet_params.h"

namespace sluice {
namespace {

struct RetinaNet final : ImageNetwork<RetinaNet> {
  struct Params : ImageNet, ResNetBackbone {
    std::int64_t num_anchors = 1;
    std::string backbone = "resnet50";
    std::vector<std::int64_t> returned_layers{1, 2, 3};
    Params() { in_channels = 3; }
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "retina_net",
        "Detector of boxes (MONAI's RetinaNet, whose num_classes is out_channels, on the ResNet "
        "whose n_input_channels is in_channels): for each level a map [N, num_anchors * "
        "out_channels, ...], then for each a map [N, num_anchors * 2 * spatial_dims, ...].",
        true, "Classes of boxes, without the background.");
    s.param("num_anchors", &Params::num_anchors, "Anchors at each voxel of a map.")
        .at_least(1)
        .required()
        .param("backbone", &Params::backbone, "What the features are of.")
        .choices(backbones())
        .param("returned_layers", &Params::returned_layers,
               "Layers of the backbone that have a level each; one more level follows.")
        .range(1, 4)
        .length(1, 4);
    return add_resnet_params<Params>(s);
  }

  Values build(const Scope& s, const Value& image) const {
    Values maps, boxes;
    for (const Value& level : pyramid(s / "feature_extractor", image)) {
      const Scope c = s / "classification_head", r = s / "regression_head";
      const double prior = 0.01;
      maps.push_back(head(c, "cls_logits", level, p.num_anchors * p.out_channels,
                          -std::log((1 - prior) / prior)));
      boxes.push_back(head(r, "bbox_reg", level, p.num_anchors * 2 * image.axes, 0));
    }
    maps.insert(maps.end(), boxes.begin(), boxes.end());
    return maps;
  }

 private:
  static std::vector<std::string> backbones() {
    std::vector<std::string> names;
    for (const int layers : resnet_layers()) names.push_back("resnet" + std::to_string(layers));
    return names;
  }

  Values pyramid(const Scope& s, const Value& image) const {
    constexpr std::int64_t channels = 256;
    const auto& layers = p.returned_layers;
    for (std::size_t i = 1; i < layers.size(); ++i)
      if (layers[i] <= layers[i - 1]) refuse("returned_layers must rise");
    ResNetOptions o = resnet_options(p, std::stoi(p.backbone.substr(6)));
    o.levels = static_cast<int>(layers.back());
    const Values features = resnet_features(s / "body", image, o);
    const Scope fpn = s / "fpn";
    const auto convolved = [&](const char* name, std::size_t i, const Value& x, int kernel) {
      return conv(fpn / name / static_cast<std::int64_t>(i), x, channels,
                  {.kernel = kernel, .init = uniform, .bias_init = Init::fill(0)});
    };
    Values levels(layers.size());
    Value above;
    for (std::size_t i = layers.size(); i-- > 0;) {
      const Value here =
          convolved("inner_blocks", i, features[static_cast<std::size_t>(layers[i])], 1);
      above = i + 1 == layers.size() ? here : here + resized(above, here);
      levels[i] = convolved("layer_blocks", i, above, 3);
    }
    levels.push_back(max_pool(levels.back(), {.kernel = 1, .stride = 2}));
    return levels;
  }

  static Value head(const Scope& s, const char* last, const Value& level, std::int64_t out,
                    double bias) {
    const ConvOptions small{.init = Init::normal(0.01), .bias_init = Init::fill(0)};
    Value x = level;
    for (std::int64_t i = 0; i < 4; ++i) {
      x = conv(s / "conv" / (3 * i), x, level.channels, small);
      x = relu(norm(s / "conv" / (3 * i + 1), x, {.kind = Norm::group, .groups = 8}));
    }
    return conv(s / last, x, out, {.init = Init::normal(0.01), .bias_init = Init::fill(bias)});
  }

  // Within sqrt(3 / fan), as kaiming_uniform_(a=1).
  static constexpr Init uniform{Init::Rule::kaiming_uniform, 1};
};

const RegisterNetwork<RetinaNet> registered;

}  // namespace
}  // namespace sluice
