// segresnet_vae: MONAI's SegResNetVAE (monai.networks.nets.SegResNetVAE 1.6.1). Myronenko 2018: a
// segresnet, and from its lowest level an autoencoder's way up:
//
//   levels ─▶ segresnet's way up ─▶ logits
//   bottom ─ mean (+ noise) ─ the way up again, without skips ─▶ x? ─▶ loss
#include <ATen/ATen.h>

#include "nodes/network/latent.h"
#include "nodes/network/segresnet_parts.h"

namespace sluice {
namespace {

struct SegResNetVae final : ImageNetwork<SegResNetVae> {
  struct Params : SegResParams {
    std::vector<std::int64_t> input_image_size;
    bool vae_estimate_std = false;
    double vae_default_std = 0.3;
    std::int64_t vae_nz = 256;
  } p;

  static Spec spec() {
    return seg_res_spec<Params>(
               "segresnet_vae",
               "SegResNet with an autoencoder beside it (MONAI's SegResNetVAE). Its second output "
               "is the autoencoder's loss of each sample, without noise outside training.")
        .param("input_image_size", &Params::input_image_size, "Extents of the images.")
        .at_least(1)
        .required()
        .param("vae_estimate_std", &Params::vae_estimate_std,
               "Deviations of the latent numbers are estimated, too.")
        .param("vae_default_std", &Params::vae_default_std, "Otherwise they are this.")
        .at_least(0)
        .param("vae_nz", &Params::vae_nz, "Latent numbers.")
        .at_least(1);
  }

  Values build(const Scope& s, const Value& image) const {
    const SegRes net{p};
    net.check();
    require_per_axis("input_image_size", p.input_image_size.size(), image.axes);
    const Values levels = net.encode(s, image);
    return {net.logits(s, levels), loss(s, net, image, levels.back())};
  }

 private:
  static constexpr std::int64_t narrowest = 16;  // MONAI's smallest_filters

  Value loss(const Scope& s, const SegRes& net, const Value& image, const Value& bottom) const {
    std::vector<std::int64_t> smallest{narrowest};
    for (const auto n : p.input_image_size) smallest.push_back(n >> p.blocks_down.size());
    const std::int64_t numbers = product_of(smallest);
    const Scope down = s / "vae_down", act = SegRes::act_mod(s);
    Value y = conv(down / "2.conv", net.norm_act(down / 0, act, bottom), narrowest, {.stride = 2});
    y = flatten(net.norm_act(down / 3, act, y), numbers / narrowest);
    const Value mean = linear(s / "vae_fc1", y, p.vae_nz);
    const Value deviation =
        linear(s / "vae_fc2", y, p.vae_nz).op("softplus", [](In t) { return at::softplus(t[0]); });
    const auto usual = [by = p.vae_default_std](In t) { return t[0] + by * t[1]; };
    Value z = p.vae_estimate_std ? noised(mean, deviation)
                                 : mean.op("noised", usual, {.with = {normals(mean)}});
    z = image_of(net.activated(act, linear(s / "vae_fc3", z, numbers)), smallest);
    const Scope up = s / "vae_fc_up_sample";
    z = conv(up / "0.conv", z, bottom.channels, {.kernel = 1, .bias = false});
    z = net.norm_act(up / 2, act, net.twice(up / 1, z));
    z = net.last(s / "vae_conv_final", net.decode(s, z, {}), image.channels);
    return total(image, z, mean, deviation);
  }
  // Of each sample: what the latent numbers stray from the normal distribution, and the image from
  // itself.
  Value total(const Value& image, const Value& z, const Value& mean, const Value& deviation) const {
    const auto strays = [](In t) { return (t[0] - t[1]).square().flatten(1).mean(1); };
    const auto means = [](In t) { return t[0] + t[1].square().mean(1); };
    const auto both = [](In t) {
      const at::Tensor v = t[2].square();
      return t[0] + 0.5 * (t[1].square() + v - at::log(1e-8 + v) - 1).mean(1);
    };
    const OpOptions vector{.with = {z}, .channels = 1, .axes = 0};
    const Value mse = image.op("mean_square", strays, vector);
    return p.vae_estimate_std ? mse.op("vae_loss", both, {.with = {mean, deviation}})
                              : mse.op("vae_loss", means, {.with = {mean}});
  }
  std::string unfit(at::IntArrayRef extents) const override {
    const std::string why = unless_made_for(extents, "input_image_size", p.input_image_size);
    return why.empty() ? SegRes{p}.unfit(extents) : why;
  }
};

const RegisterNetwork<SegResNetVae> registered;

}  // namespace
}  // namespace sluice
