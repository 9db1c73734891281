// diffusion_model_unet, spade_diffusion_model_unet, diffusion_model_unet_maisi: MONAI's
// DiffusionModelUNet and SPADEDiffusionModelUNet (monai.networks.nets 1.6.1) and
// DiffusionModelUNetMaisi (monai.apps.generation.maisi.networks), with their parameter names and
// defaults. Rombach et al. 2022; Pinaya et al. 2022; Fernandez et al. 2022 (SPADE); Guo et al. 2024
// (MAISI).
//
//   image ─ conv ─ residual blocks, attention ─ / 2 ─ ... ─ middle ─ the way back ─ norm, conv ─▶
//   timesteps (+ class_labels) ─ waves ─ linear ─ linear ─▶ added in every residual block
//   region indices, spacing ─ linear ─ linear ─▶ beside them (maisi)
//   context ─▶ read by attention;  seg ─▶ SPADE in the residual blocks of the way back
#include "nodes/network/generative_params.h"

namespace sluice {
namespace {

template <Variant variant>
struct DiffusionUNet final : ImageNetwork<DiffusionUNet<variant>> {
  static constexpr bool with_spade = variant == Variant::spade;
  struct Params : DiffusionParams {
    std::int64_t label_nc = 0, spade_intermediate_channels = 128;
    double dropout_cattn = 0;
    bool additional_residuals = false;
    Params() {
      if (variant == Variant::maisi) be_maisi();
    }
  } p;

  static Spec spec() {
    const auto [type, what, then] = about();
    Spec s = diffusion_spec<Params>(image_net<Params>(
        type, std::string(what) + ", then context and class_labels where there are such" + then,
        true, "Channels of the output."));
    if (with_spade) return add_spade_params<Params>(s);
    if (variant == Variant::maisi) add_numbers(s);
    return s
        .param("dropout_cattn", &Params::dropout_cattn,
               "Dropout of the transformers, with_conditioning.")
        .range(0, 0.99)
        .param("additional_residuals", &Params::additional_residuals,
               "Further inputs, what controlnet gives in its order: they are added to the skips "
               "and the middle.");
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
    // MAISI's adds in place, so its middle reads the last of the sums.
    if (variant == Variant::maisi) add_residuals(skips, x);
    Value y = diffusion_middle(s, skips.back(), times, c, o);
    if (variant != Variant::maisi) add_residuals(skips, x);
    if (p.additional_residuals) y = y + x.back();
    y = diffusion_up(s, y, skips, times, c, o);
    return {conv(s / "out.2.conv", silu(norm(s / "out.0", y, o.norm)), p.out_channels,
                 {.init = Init::fill(0), .bias_init = Init::fill(0)})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, p.step());
  }

 private:
  void add_residuals(Values& skips, const Values& inputs) const {
    if (!p.additional_residuals) return;
    const std::size_t first = inputs.size() - skips.size() - 1;
    for (std::size_t i = 0; i < skips.size(); ++i) skips[i] = skips[i] + inputs[first + i];
  }
  // The type, and its description's beginning and end.
  static std::array<const char*, 3> about() {
    if (with_spade)
      return {"spade_diffusion_model_unet",
              "diffusion_model_unet that reads a map of labels (MONAI's SPADEDiffusionModelUNet). "
              "Inputs: image, timesteps [N], seg",
              " (the model node's keys)."};
    if (variant == Variant::maisi)
      return {"diffusion_model_unet_maisi",
              "diffusion_model_unet that reads which part of the body an image shows, and its "
              "spacing (MONAI's DiffusionModelUNetMaisi). Inputs: image, timesteps [N]",
              ", then what include_... add in this order (the model node's keys)."};
    return {"diffusion_model_unet",
            "The U-Net of diffusion models (MONAI's DiffusionModelUNet). Inputs: image, timesteps "
            "[N]",
            " (the model node's keys)."};
  }
  static void add_numbers(Spec& s) {
    s.param(
         "include_top_region_index_input", &Params::include_top_region_index_input,
         "A further input, \"top_region_index_tensor\" [N, 4]: the image's uppermost part of the "
         "body, 100 at its number and 0 at others for MAISI's weights.")
        .param("include_bottom_region_index_input", &Params::include_bottom_region_index_input,
               "A further input, \"bottom_region_index_tensor\" [N, 4]: its lowest part, as above.")
        .param(
            "include_spacing_input", &Params::include_spacing_input,
            "A further input, \"spacing_tensor\" [N, 3]: its voxels' extents, in hundredths of a "
            "millimetre for MAISI's weights.");
  }
};

const RegisterNetwork<DiffusionUNet<Variant::plain>> registered;
const RegisterNetwork<DiffusionUNet<Variant::spade>> registered_spade;
const RegisterNetwork<DiffusionUNet<Variant::maisi>> registered_maisi;

}  // namespace
}  // namespace sluice
