// patch_discriminator, multi_scale_patch_discriminator: MONAI's PatchDiscriminator and
// MultiScalePatchDiscriminator (monai.networks.nets 1.6.1), with their parameter names and
// defaults. Isola et al. 2017; Wang et al. 2018.
//
//   x ─ conv / 2 ─ conv, norm / 2 ─ ... ─ conv, norm ─ conv ─▶ output 0: how true each patch is
//   further outputs: what every layer made, in their order
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct PatchParams : ImageNet {
  std::int64_t channels = 0, num_layers_d = 3, kernel_size = 4;
  std::optional<Json> activation = Json::array({"LEAKYRELU", {{"negative_slope", 0.2}}}),
                      norm = Json("BATCH");
  bool bias = false;
  double dropout = 0;
  PatchParams() { out_channels = 1; }
};

template <class Params>
Spec patch_spec(Spec s) {
  for (const char* name : {"spatial_dims", "in_channels"}) declared(s, name).required = true;
  return s.gives("logits", Form::any)
      .dtype("float32")
      .param("channels", &Params::channels, "Of the first layer; each has twice the one before.")
      .at_least(1)
      .required()
      .param("num_layers_d", &Params::num_layers_d, "Layers between the first and the last.")
      .at_least(1)
      .param("kernel_size", &Params::kernel_size, "Of the convolutions.")
      .at_least(1)
      .param("activation", &Params::activation, monai_name_or_none_doc)
      .choices(act_names())
      .param("norm", &Params::norm, "The same.")
      .choices(norm_names())
      .param("bias", &Params::bias, "Convolutions before a norm have a bias.")
      .param("dropout", &Params::dropout, dropout_doc)
      .range(0, 0.99);
}

// What every layer makes; the last is how true each patch is.
Values judged(const Scope& s, const Value& image, const PatchParams& p, std::int64_t layers,
              const PerAxis& padding, std::int64_t last_kernel) {
  std::optional<NormOptions> norm = norm_or_none(p.norm);
  if (norm && norm->kind == Norm::batch) norm->weight_init = Init::normal(0.02, 1);
  ConvolutionOptions c;
  c.strides = 2;
  c.kernel_size = p.kernel_size;
  c.padding = padding;
  c.adn.act = act_or_none(p.activation);
  c.adn.dropout = p.dropout;
  c.init = Init::normal(0.02);
  c.bias_init = Init::fill(0);
  Values all{convolution(s / "initial_conv", image, p.channels, c)};
  c.adn.norm = norm;
  c.bias = p.bias;
  for (std::int64_t i = 0; i < layers; ++i) {
    c.strides = i + 1 == layers ? 1 : 2;
    all.push_back(convolution(s / i, all.back(), p.channels << (i + 1), c));
  }
  all.push_back(conv(s / "final_conv.conv", all.back(), p.out_channels,
                     {.kernel = last_kernel,
                      .padding = (last_kernel - 1) / 2,
                      .init = c.init,
                      .bias_init = c.bias_init}));
  return all;
}

struct PatchDiscriminator final : ImageNetwork<PatchDiscriminator> {
  struct Params : PatchParams {
    std::vector<std::int64_t> padding{1};
    std::optional<std::int64_t> last_conv_kernel_size;
  } p;
  static constexpr int least_axes = 1;
  static Spec spec() {
    return patch_spec<Params>(
               image_net<Params>("patch_discriminator",
                                 "How true each patch of an image is (MONAI's PatchDiscriminator). "
                                 "Further outputs: what every layer makes, first to last.",
                                 false, "Channels of the judgement."))
        .param("padding", &Params::padding, "A number or one an axis.")
        .at_least(0)
        .param("last_conv_kernel_size", &Params::last_conv_kernel_size,
               "Of the last convolution; null: kernel_size.")
        .at_least(1);
  }
  Values build(const Scope& s, const Value& image) const {
    const Values all = judged(s, image, p, p.num_layers_d, p.padding,
                              p.last_conv_kernel_size.value_or(p.kernel_size));
    Values out{all.back()};
    out.insert(out.end(), all.begin(), all.end() - 1);
    return out;
  }
};

struct MultiScale final : ImageNetwork<MultiScale> {
  struct Params : PatchParams {
    std::int64_t num_d = 0, minimum_size_im = 256, last_conv_kernel_size = 1;
  } p;
  static constexpr int least_axes = 1;
  static Spec spec() {
    Spec s = patch_spec<Params>(
        image_net<Params>("multi_scale_patch_discriminator",
                          "Several patch_discriminators, the k-th with k times num_layers_d layers "
                          "(MONAI's MultiScalePatchDiscriminator). Outputs: the judgement of each, "
                          "then what their layers make, one after the other.",
                          false, "Channels of the judgements."));
    declared(s, "num_layers_d").required = true;
    return s.param("num_d", &Params::num_d, "How many.")
        .at_least(1)
        .required()
        .param("minimum_size_im", &Params::minimum_size_im,
               "The smallest extent of images: it must bear all strides.")
        .at_least(1)
        .param("last_conv_kernel_size", &Params::last_conv_kernel_size, "Of the last convolutions.")
        .at_least(1);
  }
  Values build(const Scope& s, const Value& image) const {
    Values out, between;
    for (std::int64_t d = 0; d < p.num_d; ++d) {
      const std::int64_t layers = p.num_layers_d * (d + 1);
      if (layers >= 63 || p.minimum_size_im >> layers < 1)
        refuse("images of minimum_size_im " + std::to_string(p.minimum_size_im) +
               " are too small for " + std::to_string(layers) + " layers");
      const Values all = judged(s / ("discriminator_" + std::to_string(d)), image, p, layers,
                                (p.kernel_size - 1) / 2, p.last_conv_kernel_size);
      out.push_back(all.back());
      between.insert(between.end(), all.begin(), all.end() - 1);
    }
    out.insert(out.end(), between.begin(), between.end());
    return out;
  }
};

const RegisterNetwork<PatchDiscriminator> registered;
const RegisterNetwork<MultiScale> registered_multi_scale;

}  // namespace
}  // namespace sluice
