// diffusion_model_unet, spade_diffusion_model_unet: MONAI's DiffusionModelUNet and
// SPADEDiffusionModelUNet (monai.networks.nets 1.6.1), with their parameter names and defaults.
// Rombach et al. 2022; Pinaya et al. 2022; Fernandez et al. 2022 (SPADE).
//
//   image ─ conv ─ residual blocks, attention ─ / 2 ─ ... ─ middle ─ the way back ─ norm, conv ─▶
//   timesteps (+ class_labels) ─ waves ─ linear ─ linear ─▶ added in every residual block
//   context ─▶ read by attention;  seg ─▶ SPADE in the residual blocks of the way back
#include "nodes/network/generative_params.h"

namespace sluice {
namespace {

template <bool with_spade>
struct DiffusionUNet final : ImageNetwork<DiffusionUNet<with_spade>> {
  struct Params : DiffusionParams {
    std::int64_t label_nc = 0, spade_intermediate_channels = 128;
    double dropout_cattn = 0;
    bool additional_residuals = false;
  } p;

  static Spec spec() {
    Spec s = diffusion_spec<Params>(image_net<Params>(
        with_spade ? "spade_diffusion_model_unet" : "diffusion_model_unet",
        std::string(with_spade ? "diffusion_model_unet that reads a map of labels (MONAI's "
                                 "SPADEDiffusionModelUNet). Inputs: image, timesteps [N], seg"
                               : "The U-Net of diffusion models (MONAI's DiffusionModelUNet). "
                                 "Inputs: image, timesteps [N]") +
            ", then context and class_labels where there are such (the model node's keys).",
        true, "Channels of the output."));
    if (with_spade)
      add_spade_params<Params>(s);
    else
      s.param("dropout_cattn", &Params::dropout_cattn,
              "Dropout of the transformers, with_conditioning.")
          .range(0, 0.99)
          .param("additional_residuals", &Params::additional_residuals,
                 "Further inputs, what controlnet gives in its order: they are added to the skips "
                 "and the middle.");
    return s;
  }

  std::vector<NetInput> inputs() const {
    std::vector<NetInput> all{{.channels = p.in_channels}};
    p.add_inputs(all);
    if (with_spade) all.insert(all.begin() + 2, {.key = "seg", .channels = p.label_nc, .finer = 0});
    if (p.additional_residuals) {
      const auto residual = [&](const std::string& key, std::int64_t channels) {
        all.push_back({.key = key, .channels = channels, .finer = 0});
      };
      const DiffusionOptions o = p.options();
      std::int64_t i = 0;
      residual("residual_" + std::to_string(i++), o.channels[0]);
      for (std::size_t level = 0; level < o.channels.size(); ++level)
        for (std::int64_t b = level + 1 == o.channels.size(); b <= o.num_res_blocks[level]; ++b)
          residual("residual_" + std::to_string(i++), o.channels[level]);
      residual("residual_middle", o.channels.back());
    }
    return all;
  }

  Values build(const Scope& s, const Values& x) const {
    DiffusionOptions o = p.options();
    o.dropout_cattn = p.dropout_cattn;
    Conditions c = p.conditions(x, 1);
    if (with_spade) {
      Values others = x;
      others.erase(others.begin() + 2);
      c = p.conditions(others, 1);
      c.spade = {x[2], p.spade_intermediate_channels};
    }
    const Value times = embedded_times(s, c, o);
    Values skips = diffusion_down(s, conv(s / "conv_in.conv", x[0], o.channels[0]), times, c, o);
    Value y = diffusion_middle(s, skips.back(), times, c, o);
    if (p.additional_residuals) {
      const std::size_t first = x.size() - skips.size() - 1;
      for (std::size_t i = 0; i < skips.size(); ++i) skips[i] = skips[i] + x[first + i];
      y = y + x.back();
    }
    y = diffusion_up(s, y, skips, times, c, o);
    return {conv(s / "out.2.conv", silu(norm(s / "out.0", y, o.norm)), p.out_channels,
                 {.init = Init::fill(0), .bias_init = Init::fill(0)})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, p.step());
  }
};

const RegisterNetwork<DiffusionUNet<false>> registered;
const RegisterNetwork<DiffusionUNet<true>> registered_spade;

}  // namespace
}  // namespace sluice
