// voxel_morph: MONAI's VoxelMorph on its VoxelMorphUNet (monai.networks.nets 1.6.1), the parameters
// of both in one, with their names and defaults. Two images come in, moving and fixed; the moved
// one comes out, then the displacements. Balakrishnan et al. 2019; Dalca et al. 2019.
//
//   moving, fixed ─ U-Net ─ velocities ─ integrated ─ displacements ─ the moving image, warped
#include <ATen/ATen.h>

#include "kernels/image/warp.h"
#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct VoxelMorph final : ImageNetwork<VoxelMorph> {
  struct Params : ImageNet {
    std::int64_t unet_out_channels = 32, integration_steps = 7;
    std::vector<std::int64_t> channels{16, 32, 32, 32, 32, 32}, final_conv_channels{16, 16};
    std::vector<std::int64_t> kernel_size{3}, up_kernel_size{3};
    std::optional<Json> act = Json("LEAKYRELU"), final_conv_act = Json("LEAKYRELU"), norm;
    double dropout = 0;
    bool bias = true, use_maxpool = true, half_res = false;
    std::string adn_ordering = "NDA";
    Params() { out_channels = 1; }
  } p;

  static Spec spec() {
    return image_net<Params>(
               "voxel_morph",
               "Registration (MONAI's VoxelMorph on its VoxelMorphUNet). Inputs: the moving and "
               "the "
               "fixed image (the model node's keys). Outputs: the moving one, warped, and the "
               "displacements in voxels.",
               false, "Channels of the first output, the warped image: as many as of each image.")
        .param("unet_out_channels", &Params::unet_out_channels, "Channels that the U-Net makes.")
        .at_least(1)
        .param("channels", &Params::channels,
               "A pair for each level, top first: on the way down and up.")
        .at_least(1)
        .length(2)
        .param("final_conv_channels", &Params::final_conv_channels,
               "Channels of the convolutions after the U-Net.")
        .at_least(1)
        .param("final_conv_act", &Params::final_conv_act,
               "Theirs, as in MONAI; LEAKYRELU alone has the slope 0.2; null: none.")
        .choices(act_names())
        .param("kernel_size", &Params::kernel_size, "Odd; a number or one a dimension.")
        .at_least(1)
        .param("up_kernel_size", &Params::up_kernel_size, "The same for the upward path.")
        .at_least(1)
        .param("act", &Params::act, "As final_conv_act.")
        .choices(act_names())
        .param("norm", &Params::norm, "As in MONAI: a name, or [name, {arguments}]; null: none.")
        .choices(norm_names())
        .param("dropout", &Params::dropout, dropout_doc)
        .range(0, 0.99)
        .param("bias", &Params::bias, conv_bias_doc)
        .param("use_maxpool", &Params::use_maxpool, "Levels halve by pools, and not by strides.")
        .param("adn_ordering", &Params::adn_ordering, "Order of activation, dropout and norm.")
        .param("integration_steps", &Params::integration_steps,
               "Squarings from velocities to displacements; 0: the U-Net makes displacements.")
        .range(0, 32)
        .param("half_res", &Params::half_res, "Velocities are integrated at half of the extents.");
  }

  std::vector<NetInput> inputs() const {
    return {{.key = "moving", .channels = p.in_channels},
            {.key = "fixed", .channels = p.in_channels}};
  }

  Values build(const Scope& s, const Values& both) const {
    if (p.channels.size() % 2 != 0) refuse("channels needs pairs");
    if (p.in_channels != p.out_channels) refuse("out_channels must be in_channels");
    for (const auto& kernel : {p.kernel_size, p.up_kernel_size}) require_odd_kernels(kernel);
    const Scope net = s / "backbone.net";
    Value x = level(net / 0, concat(both), p.unet_out_channels, 0);
    std::int64_t i = 0;
    for (const auto out : p.final_conv_channels)
      x = block(net / 1 / ("final_conv_" + std::to_string(i++)), x, out, 1, p.kernel_size,
                slope(p.final_conv_act));
    x = block(net / 1 / "final_conv_out", x, both[0].axes, 1, p.kernel_size, std::nullopt);
    const Value by = displacements(x);
    return {both[0].op("warp", [](In t) { return warp(t[0], t[1]); }, {.with = {by}}), by};
  }

 private:
  static std::optional<Act> slope(const std::optional<Json>& given) {
    const std::optional<Act> a = act_or_none(given);
    return a && a->kind == Act::Kind::leaky_relu && given->is_string() ? Act{a->kind, 0.2} : a;
  }
  Value block(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride,
              const PerAxis& kernel, const std::optional<Act>& act) const {
    const Adn adn{p.adn_ordering, norm_or_none(p.norm), act, p.dropout};
    return convolution(s, x, out,
                       {.strides = stride, .kernel_size = kernel, .adn = adn, .bias = p.bias});
  }
  Value down(const Scope& s, const Value& x, std::int64_t out, bool top) const {
    const bool pools = p.use_maxpool && !top;
    return block(pools ? s / 1 : s, pools ? max_pool(x) : x, out, p.use_maxpool || top ? 1 : 2,
                 p.kernel_size, slope(p.act));
  }
  static Value twice(const Value& x) { return magnified(x, 2, false, false); }
  // One level and all below it.
  Value level(const Scope& s, const Value& x, std::int64_t out, std::size_t i) const {
    const bool top = i == 0, last = 2 * i + 2 == p.channels.size();
    const Value in = down(s / 0, x, p.channels[2 * i], top);
    const Scope sub = s / "1.submodule";
    const std::int64_t back = p.channels[2 * i + 1];
    const Value below = last ? twice(down(sub / 0, in, back, false)) : level(sub, in, back, i + 1);
    const Value y =
        block(top ? s / 2 : s / "2.0", concat({in, below}), out, 1, p.up_kernel_size, slope(p.act));
    return top ? y : twice(y);
  }
  Value displacements(const Value& velocities) const {
    const auto function = [steps = p.integration_steps, half = p.half_res](In t) {
      at::Tensor y = t[0];
      const auto full = y.sizes().slice(2).vec();
      const auto sized = [](const at::Tensor& x, at::IntArrayRef size) {
        return linear_to(x, size, /*align_corners=*/true);
      };
      if (half) {
        auto size = full;
        for (auto& n : size) n /= 2;
        y = sized(y, size) * 2;
      }
      y = dvf2ddf(y, steps);
      return half ? sized(y * 0.5, full) : y;
    };
    return velocities.op("integrate", function, {.attributes = {{"steps", p.integration_steps}}});
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, std::int64_t{1} << (p.channels.size() / 2));
  }
};

const RegisterNetwork<VoxelMorph> registered;

}  // namespace
}  // namespace sluice
