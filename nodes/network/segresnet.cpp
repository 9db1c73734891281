// segresnet: MONAI's SegResNet (monai.networks.nets.SegResNet 1.6.1) with its parameter names and
// defaults. Myronenko 2018, without the autoencoder's branch. segresnet_vae: with it.
//
//   x ─ convInit ─ blocks ──────────────────────────── + ─ blocks ─ norm, ReLU, 1x1 ─▶ logits
//                    └─ stride 2 ─ blocks ──── + ─ blocks ─ 1x1, x2 ─┘
//                                    └─ stride 2 ─ blocks ─ 1x1, x2 ─┘
//                                                    └─ mean (+ noise) ─ the way up again ─▶ x?
#include <ATen/ATen.h>

#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct SegResParams : ImageNet {
  std::int64_t init_filters = 8;
  std::optional<double> dropout_prob;
  std::int64_t num_groups = 8;
  std::optional<Json> norm;
  Json act = Json::array({"RELU", {{"inplace", true}}});
  bool use_conv_final = true;
  std::vector<std::int64_t> blocks_down{1, 2, 2, 4}, blocks_up{1, 1, 1};
  std::string upsample_mode = "nontrainable";
};

template <class Params>
Spec seg_res_spec(std::string name, std::string doc) {
  return image_net<Params>(std::move(name), std::move(doc), false)
      .param("init_filters", &Params::init_filters, "Channels of the first level, doubled by each.")
      .at_least(1)
      .param("dropout_prob", &Params::dropout_prob,
             "Probability that a channel of the first convolution becomes 0 in training.")
      .range(0, 0.99)
      .param("num_groups", &Params::num_groups, "Groups of the group norms.")
      .at_least(1)
      .param("norm", &Params::norm, "As in MONAI: [name, {arguments}]; null: groups of num_groups.")
      .param("act", &Params::act, "As in MONAI: a name, or [name, {arguments}].")
      .param("use_conv_final", &Params::use_conv_final, "Norm, activation and 1x1 at the end.")
      .param("blocks_down", &Params::blocks_down, "Residual blocks of every level, top first.")
      .at_least(1)
      .length(1)
      .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first.")
      .at_least(1)
      .length_of("blocks_down", -1)
      .param("upsample_mode", &Params::upsample_mode, "How extents are doubled.")
      .choices(upsample_modes());
}

// What both networks are made of.
struct SegRes {
  const SegResParams& p;

  void check(const Scope& s) const {
    if (!p.norm && p.init_filters % p.num_groups != 0)
      s.refuse("init_filters is no multiple of num_groups");
    if (p.blocks_up.size() + 1 != p.blocks_down.size())
      s.refuse("blocks_up needs one entry fewer than blocks_down");
  }
  Value activated(const Scope& s, const Value& x) const {
    const Act a = act_of(p.act);
    return a.kind == Act::Kind::relu ? relu(x) : act(s, x, a);
  }
  Value norm_act(const Scope& s, const Value& x) const {
    NormOptions o{.kind = Norm::group, .groups = p.num_groups};
    if (p.norm) o = norm_of(*p.norm);
    return activated(s, norm(s, x, o));
  }
  static Value conv3(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride = 1) {
    return conv(s, x, out, {.kernel = 3, .stride = stride, .bias = false});
  }
  Value block(const Scope& s, const Value& x) const {
    const Value y = conv3(s / "conv1.conv", norm_act(s / "norm1", x), x.channels);
    return conv3(s / "conv2.conv", norm_act(s / "norm2", y), x.channels) + x;
  }
  Value twice(const Scope& s, const Value& x) const {
    if (p.upsample_mode == "nontrainable") return doubled(x);
    UpSampleOptions o;
    o.mode = p.upsample_mode;
    return upsample(s, x, x.channels, o);
  }
  Values encode(const Scope& s, const Value& image) const {
    Value x = conv3(s / "convInit.conv", image, p.init_filters);
    if (p.dropout_prob) x = dropout_channels(x, *p.dropout_prob);
    Values levels;
    for (std::size_t i = 0; i < p.blocks_down.size(); ++i) {
      const Scope level = s / "down_layers" / static_cast<std::int64_t>(i);
      if (i > 0) x = conv3(level / "0.conv", x, 2 * x.channels, 2);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b) x = block(level / b, x);
      levels.push_back(x);
    }
    return levels;
  }
  // `skips` are those above x; none: nothing is added.
  Value decode(const Scope& s, const Value& bottom, Values skips) const {
    Value x = bottom;
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i) {
      const Scope sample = s / "up_samples" / static_cast<std::int64_t>(i),
                  level = s / "up_layers" / static_cast<std::int64_t>(i);
      x = conv(sample / "0.conv", x, x.channels / 2, {.kernel = 1, .bias = false});
      x = twice(sample / 1, x);
      if (!skips.empty()) {
        x = x + skips.back();
        skips.pop_back();
      }
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b) x = block(level / b, x);
    }
    return x;
  }
  Value last(const Scope& s, const Value& x, std::int64_t out) const {
    return conv(s / "2.conv", norm_act(s / 0, x), out, {.kernel = 1});
  }
  Value logits(const Scope& s, Values levels) const {
    const Value bottom = levels.back();
    levels.pop_back();
    const Value x = decode(s, bottom, levels);
    // MONAI has its parameters where it is not used, too.
    const Value y = last(s / "conv_final", x, p.out_channels);
    return p.use_conv_final ? y : x;
  }
  std::string unfit(at::IntArrayRef extents) const {
    return unless_multiples(extents, std::int64_t{1} << (p.blocks_down.size() - 1));
  }
};

struct SegResNet final : ImageNetwork<SegResNet> {
  using Params = SegResParams;
  Params p;

  static Spec spec() {
    return seg_res_spec<Params>("segresnet",
                                "Residual encoder and decoder, 2-D or 3-D (MONAI's SegResNet).");
  }
  Values build(const Scope& s, const Value& image) const {
    const SegRes net{p};
    net.check(s);
    return {net.logits(s, net.encode(s, image))};
  }
  std::string unfit(at::IntArrayRef extents) const override { return SegRes{p}.unfit(extents); }
};

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
    net.check(s);
    if (p.input_image_size.size() != static_cast<std::size_t>(image.axes))
      refuse("input_image_size needs a number for each axis");
    const Values levels = net.encode(s, image);
    return {net.logits(s, levels), loss(s, net, image, levels.back())};
  }

 private:
  static constexpr std::int64_t narrowest = 16;  // MONAI's smallest_filters

  Value loss(const Scope& s, const SegRes& net, const Value& image, const Value& bottom) const {
    std::vector<std::int64_t> extents;
    std::int64_t voxels = 1;
    for (const auto n : p.input_image_size) {
      extents.push_back(n >> p.blocks_down.size());
      voxels *= extents.back();
    }
    const Scope down = s / "vae_down";
    Value y = conv(down / "2.conv", net.norm_act(down / 0, bottom), narrowest, {.stride = 2});
    y = flatten(net.norm_act(down / 3, y), voxels);
    const Value mean = linear(s / "vae_fc1", y, p.vae_nz);
    const Value deviation =
        linear(s / "vae_fc2", y, p.vae_nz).op("softplus", [](In t) { return at::softplus(t[0]); });
    const Value noise = normals(mean);
    const auto estimated = [](In t) { return t[0] + t[1] * t[2]; };
    const auto usual = [by = p.vae_default_std](In t) { return t[0] + by * t[1]; };
    Value z = p.vae_estimate_std ? mean.op("noised", estimated, {.with = {deviation, noise}})
                                 : mean.op("noised", usual, {.with = {noise}});
    z = net.activated(s, linear(s / "vae_fc3", z, narrowest * voxels));
    const auto to_image = [extents](In t) {
      std::vector<std::int64_t> size{t[0].size(0), narrowest};
      size.insert(size.end(), extents.begin(), extents.end());
      return t[0].reshape(size);
    };
    z = z.op("to_image", to_image, {.channels = narrowest, .axes = image.axes});
    const Scope up = s / "vae_fc_up_sample";
    z = conv(up / "0.conv", z, bottom.channels, {.kernel = 1, .bias = false});
    z = net.norm_act(up / 2, net.twice(up / 1, z));
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
    if (extents != at::IntArrayRef(p.input_image_size))
      return "was made for images of input_image_size, got " + c10::str(extents);
    return SegRes{p}.unfit(extents);
  }
};

const RegisterNetwork<SegResNet> registered;
const RegisterNetwork<SegResNetVae> registered_vae;

}  // namespace
}  // namespace sluice
