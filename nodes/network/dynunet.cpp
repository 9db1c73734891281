// dynunet: MONAI's DynUNet (monai.networks.nets.DynUNet 1.6.1), nnU-Net's network, with its
// parameter names and defaults. Isensee et al. 2021.
//
//   x ─ input_block ─────────────────────────── upsamples.n ─ output_block ─▶ output 0: logits
//        └─ downsamples.0 ─────────── upsamples.n-1 ─ head 0 ─ resized ─▶ output 1, ...
//             └─ ... bottleneck ─ upsamples.0 ─┘
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

struct DynUNet final : ImageNetwork<DynUNet> {
  struct Params : ImageNet {
    Lists kernel_size, strides, upsample_kernel_size;
    std::optional<std::vector<std::int64_t>> filters;
    std::optional<double> dropout;
    Json norm_name = Json::array({"INSTANCE", {{"affine", true}}});
    Json act_name = Json::array({"leakyrelu", {{"inplace", true}, {"negative_slope", 0.01}}});
    bool deep_supervision = false;
    std::int64_t deep_supr_num = 1;
    bool res_block = false, trans_bias = false;
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    return image_net<Params>("dynunet", "nnU-Net's network, 2-D or 3-D (MONAI's DynUNet).")
        .param("kernel_size", &Params::kernel_size, "Of every block: a number or one an axis.")
        .at_least(1)
        .length(3)
        .required()
        .param("strides", &Params::strides, "The same; the first is the input block's.")
        .at_least(1)
        .length_of("kernel_size")
        .required()
        .param("upsample_kernel_size", &Params::upsample_kernel_size, "As strides from the second.")
        .at_least(1)
        .length_of("strides", -1)
        .required()
        .param("filters", &Params::filters,
               "Channels of every block; null: 32, doubled, at most 320 (2-D: 512).")
        .at_least(1)
        .param("dropout", &Params::dropout, dropout_doc)
        .range(0, 0.99)
        .param("norm_name", &Params::norm_name, monai_name_doc)
        .choices(norm_names())
        .param("act_name", &Params::act_name, "The same.")
        .choices(act_names())
        .param(
            "deep_supervision", &Params::deep_supervision,
            "Lower levels have outputs too, resized to the first one's extents: name them in the "
            "model node's output_keys.")
        .param("deep_supr_num", &Params::deep_supr_num, "How many of them.")
        .at_least(1)
        .param("res_block", &Params::res_block, "Blocks on the way down are residual.")
        .param("trans_bias", &Params::trans_bias, "Transposed convolutions have a bias.")
        .extents_multiple_of("strides");
  }

  Values build(const Scope& s, const Value& image) const {
    const std::size_t levels = p.strides.size();
    if (levels < 3) refuse("strides needs 3 entries or more");
    require_length("kernel_size", p.kernel_size.size(), "strides", levels);
    require_length("upsample_kernel_size", p.upsample_kernel_size.size(), "strides", levels, -1);
    for (std::size_t i = 1; i < levels; ++i)  // MONAI's concatenation fails
      if (PerAxis(p.upsample_kernel_size[i - 1]).over(image.axes) !=
          PerAxis(p.strides[i]).over(image.axes))
        refuse("upsample_kernel_size " + std::to_string(i - 1) + " is " +
               c10::str(at::IntArrayRef(p.upsample_kernel_size[i - 1])) +
               " and must be that level's stride, " + c10::str(at::IntArrayRef(p.strides[i])));
    if (p.filters && p.filters->size() < levels) refuse("filters needs an entry for each stride");
    const auto heads = static_cast<std::size_t>(p.deep_supervision ? p.deep_supr_num : 0);
    if (heads + 1 >= levels) refuse("deep_supr_num must be below the number of upsample layers");

    Values skips;
    Value x = image;
    for (std::size_t i = 0; i < levels; ++i) {
      const Scope at = i == 0            ? s / "input_block"
                       : i + 1 == levels ? s / "bottleneck"
                                         : s / "downsamples" / static_cast<std::int64_t>(i - 1);
      x = unet_block(at, x, filters(i), block(i));
      skips.push_back(x);
    }
    Values ups(levels);  // by level
    for (std::size_t i = levels - 1; i-- > 0;) {
      UnetBlockOptions plain = block(i + 1);
      plain.residual = false;
      x = unet_up_block(s / "upsamples" / static_cast<std::int64_t>(levels - 2 - i), x, skips[i],
                        filters(i), p.upsample_kernel_size[i], plain, p.trans_bias);
      ups[i] = x;
    }
    Values outputs{head(s / "output_block", ups[0])};
    for (std::size_t i = 0; i < heads; ++i)
      outputs.push_back(
          resized(head(s / "deep_supervision_heads" / static_cast<std::int64_t>(i), ups[i + 1]),
                  outputs[0]));
    return outputs;
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_strides_divide(extents, p.strides);
  }

 private:
  std::int64_t filters(std::size_t i) const {
    return p.filters ? p.filters->at(i)
                     : std::min<std::int64_t>(32L << i, p.spatial_dims == 3 ? 320 : 512);
  }
  UnetBlockOptions block(std::size_t i) const {
    const bool signal = p.spatial_dims == 1;  // MONAI's initialize_weights passes these over
    return {.kernel_size = p.kernel_size[i],
            .stride = p.strides[i],
            .norm = norm_of(p.norm_name),
            .act = act_of(p.act_name),
            .dropout = p.dropout.value_or(0),
            .residual = p.res_block,
            .init = signal ? Init{} : Init::kaiming(0.01),
            .bias_init = signal ? Init{} : Init::fill(0)};
  }
  Value head(const Scope& s, const Value& x) const {
    UnetBlockOptions one = block(0);
    one.kernel_size = one.stride = 1;
    return conv_layer(s / "conv", x, p.out_channels, one, true);
  }
};

const RegisterNetwork<DynUNet> registered;

}  // namespace
}  // namespace sluice
