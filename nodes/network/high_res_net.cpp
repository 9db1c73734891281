// high_res_net: MONAI's HighResNet (monai.networks.nets.HighResNet 1.6.1) with its parameter names
// and defaults. Li et al. 2017.
//
//   x ─ conv ─ blocks ─ blocks, dilation 2 ─ blocks, dilation 4 ─ 1x1 ─ 1x1 ─▶ logits
//   block: norm, activation, conv, as often as it has kernels, + x with channels of zeros
#include <ATen/ATen.h>

#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct HighResNet final : ImageNetwork<HighResNet> {
  struct Params : ImageNet {
    std::optional<Json> norm_type = Json::array({"batch", {{"affine", true}}});
    std::optional<Json> acti_type = Json::array({"relu", {{"inplace", true}}});
    std::optional<double> dropout_prob = 0.0;
    bool bias = false;
    Json layer_params =
        Json::array({{{"name", "conv_0"}, {"n_features", 16}, {"kernel_size", 3}},
                     {{"name", "res_1"}, {"n_features", 16}, {"kernels", {3, 3}}, {"repeat", 3}},
                     {{"name", "res_2"}, {"n_features", 32}, {"kernels", {3, 3}}, {"repeat", 3}},
                     {{"name", "res_3"}, {"n_features", 64}, {"kernels", {3, 3}}, {"repeat", 3}},
                     {{"name", "conv_1"}, {"n_features", 80}, {"kernel_size", 1}},
                     {{"name", "conv_2"}, {"kernel_size", 1}}});
    std::string channel_matching = "pad";
    Params() { out_channels = 1; }
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    return image_net<Params>("high_res_net",
                             "Network of one resolution with dilated convolutions (MONAI's "
                             "HighResNet).",
                             false)
        .param("norm_type", &Params::norm_type, monai_name_or_none_doc)
        .choices(norm_names())
        .param("acti_type", &Params::acti_type, "The same.")
        .choices(act_names())
        .param("dropout_prob", &Params::dropout_prob, "Dropout of the last two convolutions.")
        .range(0, 0.99)
        .param("bias", &Params::bias, conv_bias_doc)
        .param("layer_params", &Params::layer_params,
               "As in MONAI: the first convolution, kinds of blocks, the last two convolutions.")
        .param("channel_matching", &Params::channel_matching,
               "Where a block has more channels than it reads: zeros, or a convolution.")
        .choices({"pad", "project"});
  }

  Values build(const Scope& s, const Value& image) const {
    const Json& layers = p.layer_params;
    if (!layers.is_array() || layers.size() < 3)
      refuse("layer_params has three entries or more, one convolution first and two last");
    const Scope all = s / "blocks";
    std::int64_t number = 0, dilation = 1;
    Value x = plain(all / number++, image, layers[0], "NA");
    for (std::size_t i = 1; i + 2 < layers.size(); ++i, dilation *= 2)
      for (std::int64_t r = 0; r < asked(layers[i], "repeat"); ++r)
        x = block(all / number++, x, layers[i], dilation);
    x = plain(all / number++, x, layers[layers.size() - 2], "NAD");
    Json last = layers.back();
    last["n_features"] = p.out_channels;
    return {plain(all / number, x, last, "NAD")};
  }

 private:
  static std::int64_t asked(const Json& layer, const char* what) {
    if (!layer.is_object() || !layer.contains(what) || !layer[what].is_number_integer() ||
        layer[what] < 1)
      refuse(std::string("a layer of layer_params lacks its ") + what + ": " + layer.dump());
    return layer[what];
  }
  Adn adn(const char* ordering) const {
    return {ordering, norm_or_none(p.norm_type), act_or_none(p.acti_type),
            p.dropout_prob.value_or(0)};
  }
  Value plain(const Scope& s, const Value& x, const Json& layer, const char* ordering) const {
    const std::int64_t kernel = asked(layer, "kernel_size");
    require_odd_kernels(kernel);
    return convolution(s, x, asked(layer, "n_features"),
                       {.kernel_size = kernel, .adn = adn(ordering), .bias = p.bias});
  }
  Value block(const Scope& s, const Value& x, const Json& layer, std::int64_t dilation) const {
    const std::int64_t out = asked(layer, "n_features");
    if (!layer.contains("kernels") || !layer["kernels"].is_array())
      refuse("a layer of layer_params lacks its kernels: " + layer.dump());
    Value y = x;
    std::int64_t i = 0;
    for (const Json& kernel : layer["kernels"]) {
      if (!kernel.is_number_integer() || kernel < 1)
        refuse("kernels are numbers from 1, found " + kernel.dump());
      require_odd_kernels(kernel.get<std::int64_t>());
      y = sluice::adn(s / "layers" / i++, y, adn("NA"));
      ConvOptions c{.kernel = kernel.get<std::int64_t>(), .dilation = dilation, .bias = p.bias};
      y = conv(s / "layers" / i++ / "conv", y, out, c);
    }
    return y + matched(s / "chn_pad", x, out);
  }
  Value matched(const Scope& s, const Value& x, std::int64_t out) const {
    if (x.channels == out) return x;
    if (p.channel_matching == "project") return conv(s / "project", x, out, {.kernel = 1});
    if (x.channels > out)
      refuse("channel_matching \"pad\" cannot make " + std::to_string(out) + " channels of " +
             std::to_string(x.channels));
    std::vector<std::int64_t> pads(2 * static_cast<std::size_t>(x.axes), 0);
    pads.push_back((out - x.channels) / 2);
    pads.push_back(out - x.channels - pads.back());
    return x.op("pad", [pads](In t) { return at::constant_pad_nd(t[0], pads); },
                {.channels = out, .attributes = {{"pads", pads}}});
  }
};

const RegisterNetwork<HighResNet> registered;

}  // namespace
}  // namespace sluice
