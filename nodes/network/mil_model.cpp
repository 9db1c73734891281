// mil_model: MONAI's MILModel (monai.networks.nets.MILModel 1.6.1) on torchvision's ResNets,
// without pretrained weights, with its parameter names. Ilse et al. 2018; Myronenko et al. 2021.
//
//   bag [N, instances, 3, X, Y] ─ resnet of each ─ transformer of all ─ mean, max or attention ─▶
//   logits
#include <ATen/ATen.h>

#include "kernels/net/generative.h"
#include "kernels/net/resnet.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct MilModel final : ImageNetwork<MilModel> {
  struct Params : ImageNet {
    std::string mil_mode = "att";
    std::optional<std::string> backbone;
    std::int64_t trans_blocks = 4;
    double trans_dropout = 0;
    Params() { in_channels = 3; }
  } p;

  static Spec spec() {
    Spec s = class_net<Params>("mil_model",
                               "Classes of bags of images [N, instances, 3, X, Y] (MONAI's "
                               "MILModel without pretrained weights; num_classes is out_channels).",
                               false);
    leave_out(s, {"spatial_dims", "in_channels"});
    declared(s, "out_channels").required = true;
    return s
        .param("mil_mode", &Params::mil_mode,
               "How instances come together: the mean or the maximum of their logits, attention, "
               "a transformer before it, or one over all layers of the backbone.")
        .choices({"mean", "max", "att", "att_trans", "att_trans_pyramid"})
        .param("backbone", &Params::backbone, "One of torchvision's; null: resnet50.")
        .choices(vision_models())
        .param("trans_blocks", &Params::trans_blocks, "Layers of a transformer.")
        .at_least(1)
        .param("trans_dropout", &Params::trans_dropout, "Their dropout.")
        .range(0, 0.99);
  }

  std::vector<NetInput> inputs() const { return {{.channels = 0}}; }

  Values build(const Scope& s, const Values& bags) const {
    const Value& bag = bags[0];
    const bool pyramid = p.mil_mode == "att_trans_pyramid";
    if (pyramid && p.backbone) refuse("att_trans_pyramid takes the default backbone");
    const Value images =
        bag.op("instances", [](In t) { return t[0].flatten(0, 1); }, {.channels = 3, .axes = 2});
    const Values features =
        resnet_features(s / "net", images, vision_model(p.backbone.value_or("resnet50")));
    // A layer's means, a token for each instance.
    const auto tokens = [&](std::size_t layer) {
      const auto function = [](In t) {
        return t[0].reshape({t[1].size(0), t[1].size(1), t[0].size(1)});
      };
      return global_avg_pool(features[layer])
          .op("bag", function, {.with = {bag}, .axes = 0, .tokens = true});
    };
    Value x = tokens(4);
    if (p.mil_mode == "mean" || p.mil_mode == "max") {
      const bool mean = p.mil_mode == "mean";
      return {linear(s / "myfc", x, p.out_channels)
                  .op(p.mil_mode,
                      [mean](In t) { return mean ? t[0].mean(1) : std::get<0>(t[0].max(1)); },
                      {.tokens = false})};
    }
    const Scope at = s / "transformer";
    if (p.mil_mode == "att_trans") x = transformer(at, x);
    if (pyramid) {
      x = transformer(at / 0, tokens(1));
      x = transformer(at / 1 / 1, linear(at / 1 / 0, joined(x, tokens(2)), 256));
      x = transformer(at / 2 / 1, linear(at / 2 / 0, joined(x, tokens(3)), 256));
      x = transformer(at / 3, joined(x, tokens(4)));
    }
    const Value hidden =
        linear(s / "attention.0", x, 2048).op("tanh", [](In t) { return at::tanh(t[0]); });
    const Value shares = linear(s / "attention.2", hidden, 1);
    const Value y = x.op("weighted_sum", [](In t) { return (t[0] * at::softmax(t[1], 1)).sum(1); },
                         {.with = {shares}, .tokens = false});
    return {linear(s / "myfc", y, p.out_channels)};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return extents[0] == 3 ? ""
                           : "takes bags [N, instances, 3, X, Y], got " +
                                 std::to_string(extents[0]) + " channels";
  }

 private:
  static Value joined(const Value& x, const Value& y) {
    return x.op("concat_channels",
                [](In t) {
                  return at::cat({t[0], t[1]}, 2);
                },
                {.with = {y}, .channels = x.channels + y.channels});
  }
  Value dropped(const Value& x) const {
    return p.trans_dropout > 0 ? dropout(x, p.trans_dropout) : x;
  }
  // torch.nn.TransformerEncoder of layers with 8 heads and 2048 channels within.
  Value transformer(const Scope& s, Value x) const {
    const std::int64_t c = x.channels;
    for (std::int64_t l = 0; l < p.trans_blocks; ++l) {
      const Scope at = s / "layers" / l, attn = at / "self_attn";
      const Value qkv =
          x.op("linear", [](In t) { return at::linear(t[0], t[1], t[2]); },
               {.parameters = {attn.parameter("in_proj_weight", {3 * c, c}, Init::xavier()),
                               attn.parameter("in_proj_bias", {3 * c}, Init::fill(0))},
                .channels = 3 * c,
                .name = attn.name});
      const auto part = [&](std::int64_t i) {
        return qkv.op("part", [i, c](In t) { return t[0].narrow(2, i * c, c); }, {.channels = c});
      };
      Value y = attend(part(0), part(1), part(2), {.heads = 8, .dropout = p.trans_dropout});
      y = linear(attn / "out_proj", y, c, {.bias_init = Init::fill(0)});
      x = layer_norm(at / "norm1", x + dropped(y));
      y = dropped(relu(linear(at / "linear1", x, 2048)));
      x = layer_norm(at / "norm2", x + dropped(linear(at / "linear2", y, c)));
    }
    return x;
  }
};

const RegisterNetwork<MilModel> registered;

}  // namespace
}  // namespace sluice
