// controlnet, controlnet_maisi: MONAI's ControlNet (monai.networks.nets.ControlNet 1.6.1) and
// ControlNetMaisi (monai.apps.generation.maisi.networks), with their parameter names and defaults.
// Zhang et al. 2023; Guo et al. 2024 (MAISI).
//
//   image ─ conv ─┐
//   controlnet_cond ─ convs / 2 ... ─┴─ + ─ the way down of diffusion_model_unet ─ middle
//   outputs: a convolution of each skip, then of the middle
#include "nodes/network/generative_params.h"

namespace sluice {
namespace {

template <bool maisi>
struct ControlNet final : ImageNetwork<ControlNet<maisi>> {
  struct Params : DiffusionParams {
    std::int64_t conditioning_embedding_in_channels = 1;
    std::vector<std::int64_t> conditioning_embedding_num_channels{16, 32, 96, 256};
    Params() {
      if (maisi) be_maisi();
    }
  } p;

  static Spec spec() {
    Spec s = diffusion_spec<Params>(image_net<Params>(
        maisi ? "controlnet_maisi" : "controlnet",
        std::string("What ") + (maisi ? "diffusion_model_unet_maisi" : "diffusion_model_unet") +
            " with additional_residuals adds to follow an image (MONAI's " +
            (maisi ? "ControlNetMaisi" : "ControlNet") +
            "). Inputs: image, timesteps [N], controlnet_cond, then context and class_labels "
            "where there are such. Outputs: for each skip, then for the middle.",
        true));
    leave_out(s, {"out_channels"});
    return s
        .param("conditioning_embedding_in_channels", &Params::conditioning_embedding_in_channels,
               "Channels of controlnet_cond, whose extents are the image's, doubled once less than "
               "conditioning_embedding_num_channels has numbers.")
        .at_least(1)
        .param("conditioning_embedding_num_channels", &Params::conditioning_embedding_num_channels,
               "Of its convolutions.")
        .at_least(1)
        .length(1);
  }

  std::vector<NetInput> inputs() const {
    std::vector<NetInput> all{{.channels = p.in_channels}};
    p.add_inputs(all);
    const auto halvings = p.conditioning_embedding_num_channels.size() - 1;
    all.insert(all.begin() + 2, {.key = "controlnet_cond",
                                 .channels = p.conditioning_embedding_in_channels,
                                 .finer = std::int64_t{1} << halvings});
    return all;
  }

  Values build(const Scope& s, const Values& x) const {
    const DiffusionOptions o = p.options();
    Values others = x;
    others.erase(others.begin() + 2);
    const Conditions c = p.conditions(others, 1);
    const Value times = embedded_times(s, c, o);
    const Value y = conv(s / "conv_in.conv", x[0], o.channels[0]) +
                    conditioning(s / "controlnet_cond_embedding", x[2], o.channels[0]);
    const Values skips = diffusion_down(s, y, times, c, o);
    const ConvOptions one{.kernel = 1, .init = Init::fill(0), .bias_init = Init::fill(0)};
    Values out;
    for (std::size_t i = 0; i < skips.size(); ++i) {
      const Scope at = s / "controlnet_down_blocks" / static_cast<std::int64_t>(i);
      out.push_back(conv(i == 0 ? at : at / "conv", skips[i], skips[i].channels, one));
    }
    const Value middle = diffusion_middle(s, skips.back(), times, c, o);
    out.push_back(conv(s / "controlnet_mid_block.conv", middle, middle.channels, one));
    return out;
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, p.step());
  }

 private:
  Value conditioning(const Scope& s, const Value& x, std::int64_t out) const {
    const auto& channels = p.conditioning_embedding_num_channels;
    ConvolutionOptions c;
    c.adn.act = Act{Act::Kind::swish, 1};
    Value y = convolution(s / "conv_in", x, channels[0], c);
    for (std::size_t i = 0; i + 1 < channels.size(); ++i) {
      const auto block = static_cast<std::int64_t>(2 * i);
      c.strides = 1;
      y = convolution(s / "blocks" / block, y, channels[i], c);
      c.strides = 2;
      y = convolution(s / "blocks" / (block + 1), y, channels[i + 1], c);
    }
    return conv(s / "conv_out.conv", y, out, {.init = Init::fill(0), .bias_init = Init::fill(0)});
  }
};

const RegisterNetwork<ControlNet<false>> registered;
const RegisterNetwork<ControlNet<true>> registered_maisi;

}  // namespace
}  // namespace sluice
