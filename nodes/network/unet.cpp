// unet: MONAI's UNet (monai.networks.nets.UNet 1.6.1), residual units and all, with its parameter
// names and defaults. Zhang, Liu, Wang 2018; Kerfoot et al. 2019.
//
//   x ── down 0 ──┬────────────────────────── concat ── up 0 ──▶ logits      model.0 .. model.2
//                 └─ down 1 ──┬──── concat ── up 1 ─┘                        model.1.submodule.*
//                             └─ bottom ─┘
#include "nodes/network/staged_network.h"
#include "nodes/network/unet_levels.h"
#include "nodes/network/unit.h"

namespace sluice {
namespace {

struct UNet final : StagedNetwork<UNet> {
  struct Params : UNetLevels, InStages {
    std::int64_t num_res_units = 0;
    std::optional<Json> act = Json("PRELU"), norm = Json("INSTANCE");
    bool bias = true;
    std::string adn_ordering = "NDA";
    bool channels_last = true;
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    Spec s = add_stages<Params>(
        image_net<Params>("unet", "U-Net with residual units, 2-D or 3-D (MONAI's UNet)."));
    return add_unet_levels<Params>(s, 1)
        .param("num_res_units", &Params::num_res_units,
               "Convolutions in a residual unit; 0: plain convolutions.")
        .at_least(0)
        .param("act", &Params::act, monai_name_or_none_doc)
        .choices(act_names())
        .param("norm", &Params::norm, "The same.")
        .choices(norm_names())
        .param("bias", &Params::bias, conv_bias_doc)
        .param("adn_ordering", &Params::adn_ordering,
               "Order of Activation, Dropout and Normalisation; a letter left out is left out.")
        .param("channels_last", &Params::channels_last, "Memory layout; faster, same results.");
  }

  Values build(const Scope& s, const Value& x) const {
    p.check();
    return {level(s / "model", 0, x, p.out_channels)};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_strides_divide(extents, p.strides);
  }

 private:
  Adn adn() const { return {p.adn_ordering, norm_or_none(p.norm), act_or_none(p.act), p.dropout}; }

  // One level and all below it.
  Value level(const Scope& s, std::size_t i, const Value& x, std::int64_t out) const {
    const bool top = i == 0, plain = p.num_res_units == 0, bottom = i + 2 == p.channels.size();
    const Value down = down_layer(s / 0, x, p.channels[i], p.strides[i]);
    const Value below = bottom ? down_layer(s / "1.submodule", down, p.channels[i + 1], 1)
                               : level(s / "1.submodule", i + 1, down, p.channels[i]);
    ConvolutionOptions up{.strides = p.strides[i], .kernel_size = p.up_kernel_size, .adn = adn()};
    up.bias = p.bias;
    up.conv_only = top && plain;
    up.is_transposed = true;
    const Value y = convolution(plain ? s / 2 : s / "2.0", concat({down, below}), out, up);
    return plain ? y : unit(s / "2.1", y, out, 1, 1, top);
  }
  Value down_layer(const Scope& s, const Value& x, std::int64_t out, const PerAxis& stride) const {
    return unit(s, x, out, stride, p.num_res_units, false);
  }
  Value unit(const Scope& s, const Value& x, std::int64_t out, const PerAxis& stride,
             std::int64_t subunits, bool last_conv_only) const {
    return unit_or_convolution(s, x, out,
                               {stride, p.kernel_size, subunits, adn(), p.bias, last_conv_only});
  }
};

const RegisterNetwork<UNet> registered;

}  // namespace
}  // namespace sluice
