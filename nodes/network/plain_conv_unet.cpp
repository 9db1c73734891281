// plain_conv_unet, residual_encoder_unet: nnU-Net's PlainConvUNet and ResidualEncoderUNet
// (dynamic_network_architectures 0.4.4) with the parameter names of a plan's arch_kwargs; n_stages
// is the length of features_per_stage. A parameter has the first of its several names in a
// state_dict. Isensee et al. 2021, 2024.
//
//   x ─ stage 0 ──────────────────── concat ─ stage ─ 1x1 ─▶ logits      decoder.stages.I, I = 0
//        └ stage 1, stride ─ ... ─ up ─┘       └ 1x1 ─▶ deep supervision   being the lowest
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct NnunetParams : ImageNet {
  std::vector<std::int64_t> features_per_stage, n_conv_per_stage_decoder{2};
  std::vector<std::vector<std::int64_t>> kernel_sizes, strides;
  bool conv_bias = true, deep_supervision = false;
  Json norm = Json::array({"instance", {{"affine", true}}});
  Json act = Json::array({"leakyrelu", {{"negative_slope", 0.01}}});
  double dropout = 0;
};

template <class Params>
Spec nnunet_spec(std::string name, std::string doc) {
  return image_net<Params>(std::move(name), std::move(doc))
      .param("features_per_stage", &Params::features_per_stage, "Channels of every stage.")
      .at_least(1)
      .length(2)
      .required()
      .param("kernel_sizes", &Params::kernel_sizes, "Odd, of every stage: a number or one an axis.")
      .at_least(1)
      .length_of("features_per_stage")
      .required()
      .param("strides", &Params::strides, "Of every stage's first convolution; the first is 1.")
      .at_least(1)
      .length_of("features_per_stage")
      .required()
      .param("n_conv_per_stage_decoder", &Params::n_conv_per_stage_decoder,
             "Convolutions on the way up, bottom first: a number or one a stage.")
      .at_least(1)
      .param("conv_bias", &Params::conv_bias, conv_bias_doc)
      .param("norm", &Params::norm, monai_name_doc)
      .choices(norm_names())
      .param("act", &Params::act, "The same.")
      .choices(act_names())
      .param("dropout", &Params::dropout,
             "Probability that a channel becomes 0 in training, after each convolution.")
      .range(0, 0.99)
      .param("deep_supervision", &Params::deep_supervision,
             "Every stage on the way up has an output of its own extents, the finest first: name "
             "them in the model node's output_keys.")
      .extents_multiple_of("strides");
}

// What both networks are made of.
struct Nnunet {
  const NnunetParams& p;
  mutable std::uint64_t dropouts = 0;

  std::size_t stages() const { return p.features_per_stage.size(); }
  void check(const Scope& s) const {
    if (stages() < 2) s.refuse("features_per_stage needs 2 entries or more");
    require_length("kernel_sizes", p.kernel_sizes.size(), "features_per_stage", stages());
    require_length("strides", p.strides.size(), "features_per_stage", stages());
    for (const auto& kernel : p.kernel_sizes) require_odd_kernels(kernel);
  }
  Value normed(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
               const PerAxis& stride, bool bias, bool drops, double norm_weight = 1) const {
    ConvOptions c{.kernel = kernel, .stride = stride, .bias = bias};
    c.normed = !drops || p.dropout == 0;
    c.init = Init::kaiming(0.01);
    c.bias_init = Init::fill(0);
    Value y = conv(s / "conv", x, out, c);
    if (drops && p.dropout > 0) y = dropout_channels(y, p.dropout, ++dropouts);
    NormOptions n = norm_of(p.norm);
    n.weight_init = Init::fill(norm_weight);
    return norm(s / "norm", y, n);
  }
  Value activated(const Scope& s, const Value& x) const { return act(s, x, act_of(p.act)); }
  // StackedConvBlocks.
  Value stacked(const Scope& s, const Value& x, std::int64_t count, std::int64_t out,
                const PerAxis& kernel, const PerAxis& stride) const {
    Value y = x;
    for (std::int64_t i = 0; i < count; ++i) {
      const Scope at = s / "convs" / i;
      y = activated(at / "nonlin",
                    normed(at, y, out, kernel, i == 0 ? stride : 1, p.conv_bias, true));
    }
    return y;
  }
  // BasicBlockD. Its last norm begins at 0, so that a block begins as its shortcut.
  Value residual(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
                 const PerAxis& stride) const {
    Value y = normed(s / "conv1", x, out, kernel, stride, p.conv_bias, true);
    y = activated(s / "conv1.nonlin", y);
    y = normed(s / "conv2", y, out, kernel, 1, p.conv_bias, false, 0);
    const bool strided = !stride.is_one();
    Value beside = strided ? avg_pool(x, {.kernel = stride}) : x;
    if (x.channels != out)
      beside = normed(s / "skip" / (strided ? 1 : 0), beside, out, 1, 1, false, false);
    return activated(s / "nonlin2", y + beside);
  }
  Values decoded(const Scope& s, const Values& skips) const {
    const auto counts =
        each_of("n_conv_per_stage_decoder", p.n_conv_per_stage_decoder, stages() - 1);
    Values outputs;
    Value x = skips.back();
    for (std::size_t i = 0; i + 1 < stages(); ++i) {
      const auto n = static_cast<std::int64_t>(i);
      const std::size_t level = stages() - 2 - i;
      const PerAxis stride = p.strides[level + 1];
      const std::int64_t out = p.features_per_stage[level];
      ConvOptions up{.kernel = stride, .stride = stride, .padding = 0};
      up.transposed = true;
      up.bias = p.conv_bias;
      up.init = Init::kaiming(0.01);
      up.bias_init = Init::fill(0);
      x = concat({conv(s / "transpconvs" / n, x, out, up), skips[level]});
      x = stacked(s / "stages" / n, x, counts[i], out, p.kernel_sizes[level], 1);
      // Those of lower stages are there in any case, so weights fit with deep supervision and
      // without.
      outputs.insert(outputs.begin(),
                     conv(s / "seg_layers" / n, x, p.out_channels,
                          {.kernel = 1, .init = Init::kaiming(0.01), .bias_init = Init::fill(0)}));
    }
    if (!p.deep_supervision) outputs.resize(1);
    return outputs;
  }
};

struct PlainConvUNet final : ImageNetwork<PlainConvUNet> {
  struct Params : NnunetParams {
    std::vector<std::int64_t> n_conv_per_stage{2};
  } p;
  static Spec spec() {
    return nnunet_spec<Params>("plain_conv_unet", "nnU-Net's PlainConvUNet, 2-D or 3-D.")
        .param("n_conv_per_stage", &Params::n_conv_per_stage,
               "Convolutions on the way down: a number or one a stage.")
        .at_least(1);
  }
  Values build(const Scope& s, const Value& image) const {
    const Nnunet net{p};
    net.check(s);
    const auto counts = each_of("n_conv_per_stage", p.n_conv_per_stage, net.stages());
    Values skips{image};
    for (std::size_t i = 0; i < net.stages(); ++i)
      skips.push_back(net.stacked(s / "encoder.stages" / static_cast<std::int64_t>(i) / 0,
                                  skips.back(), counts[i], p.features_per_stage[i],
                                  p.kernel_sizes[i], p.strides[i]));
    skips.erase(skips.begin());
    return net.decoded(s / "decoder", skips);
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return unless_strides_divide(extents, p.strides);
  }
};

struct ResidualEncoderUNet final : ImageNetwork<ResidualEncoderUNet> {
  struct Params : NnunetParams {
    std::vector<std::int64_t> n_blocks_per_stage;
    Params() { n_conv_per_stage_decoder = {1}; }
  } p;
  static Spec spec() {
    return nnunet_spec<Params>("residual_encoder_unet",
                               "nnU-Net's ResidualEncoderUNet of basic blocks, 2-D or 3-D.")
        .param("n_blocks_per_stage", &Params::n_blocks_per_stage,
               "Residual blocks on the way down: a number or one a stage.")
        .at_least(1)
        .length(1)
        .required();
  }
  Values build(const Scope& s, const Value& image) const {
    const Nnunet net{p};
    net.check(s);
    const auto counts = each_of("n_blocks_per_stage", p.n_blocks_per_stage, net.stages());
    Value x =
        net.stacked(s / "encoder.stem", image, 1, p.features_per_stage[0], p.kernel_sizes[0], 1);
    Values skips;
    for (std::size_t i = 0; i < net.stages(); ++i) {
      const Scope blocks = s / "encoder.stages" / static_cast<std::int64_t>(i) / "blocks";
      for (std::int64_t b = 0; b < counts[i]; ++b)
        x = net.residual(blocks / b, x, p.features_per_stage[i], p.kernel_sizes[i],
                         b == 0 ? PerAxis(p.strides[i]) : PerAxis(1));
      skips.push_back(x);
    }
    return net.decoded(s / "decoder", skips);
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return unless_strides_divide(extents, p.strides);
  }
};

const RegisterNetwork<PlainConvUNet> registered;
const RegisterNetwork<ResidualEncoderUNet> registered_residual;

}  // namespace
}  // namespace sluice
