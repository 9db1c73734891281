// spade_net: MONAI's SPADENet (monai.networks.nets.SPADENet 1.6.1), with its parameter names and
// defaults. Park et al. 2019.
//
//   image ─ convs / 2 ─ linear ─▶ output 1: z_mu, output 2: z_logvar     (is_vae)
//   z ─ linear, or seg ─ conv ─ residual blocks with SPADE, each doubled ─ conv ─▶ output 0: image
#include <ATen/ATen.h>

#include "kernels/net/generative.h"
#include "kernels/net/up.h"
#include "nodes/network/built_network.h"
#include "nodes/network/latent.h"

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

struct SpadeNet final : ImageNetwork<SpadeNet> {
  struct Params : ImageNet {
    std::int64_t label_nc = 0, spade_intermediate_channels = 128, kernel_size = 3;
    Numbers input_shape, channels;
    std::optional<std::int64_t> z_dim;
    bool is_vae = true;
    Json norm = "INSTANCE", act = Json::array({"LEAKYRELU", {{"negative_slope", 0.2}}});
    std::optional<Json> last_act = Json::array({"LEAKYRELU", {{"negative_slope", 0.2}}});
    std::string upsampling_mode = "nearest";
  } p;

  static Spec spec() {
    return image_net<Params>("spade_net",
                             "Images from maps of labels (MONAI's SPADENet). Inputs: seg, and with "
                             "is_vae the image whose style is taken. Further outputs, with is_vae: "
                             "z_mu and z_logvar (gaussian_kl_loss: \"spread\": \"logvar\"); z is "
                             "z_mu outside training.",
                             true, "Channels of the output.")
        .param("label_nc", &Params::label_nc, "Channels of seg, a class each.")
        .at_least(1)
        .required()
        .param("input_shape", &Params::input_shape, "Extents of the images.")
        .at_least(1)
        .required()
        .param("channels", &Params::channels, "Of the encoder's levels; the decoder's backwards.")
        .at_least(1)
        .length(1)
        .required()
        .param("z_dim", &Params::z_dim, "Latent numbers, with is_vae.")
        .at_least(1)
        .param("is_vae", &Params::is_vae, "The style is drawn from what an encoder reads.")
        .param("spade_intermediate_channels", &Params::spade_intermediate_channels,
               "Channels between seg and the norms' scales.")
        .at_least(1)
        .param("norm", &Params::norm, monai_name_doc)
        .choices(norm_names())
        .param("act", &Params::act, "The same.")
        .choices(act_names())
        .param("last_act", &Params::last_act, "After the last convolution; null: none.")
        .choices(act_names())
        .param("kernel_size", &Params::kernel_size, "Odd.")
        .at_least(1)
        .param("upsampling_mode", &Params::upsampling_mode, "Between the residual blocks.")
        .choices({"nearest", "bilinear", "trilinear"});
  }

  std::vector<NetInput> inputs() const {
    std::vector<NetInput> all{{.key = "seg", .channels = p.label_nc}};
    if (p.is_vae) all.push_back({.channels = p.in_channels});
    return all;
  }

  Values build(const Scope& s, const Values& x) const {
    const Value& seg = x[0];
    require_odd_kernels(p.kernel_size);
    if (p.is_vae && !p.z_dim) refuse("is_vae needs z_dim");
    require_per_axis("input_shape", p.input_shape.size(), seg.axes);
    require_multiples("input_shape", p.input_shape, std::int64_t{1} << p.channels.size());
    if (!p.is_vae) return {decoded(s / "decoder", start(s / "decoder", seg), seg)};
    const auto [mu, logvar] = encoded(s / "encoder", x[1]);
    Numbers shape = smallest();
    shape.insert(shape.begin(), p.channels.back());
    const Value z = noised_by_logvar(mu, logvar);
    const Value first = image_of(linear(s / "decoder.fc", z, product_of(shape)), shape);
    return {decoded(s / "decoder", first, seg), mu, logvar};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "input_shape", p.input_shape);
  }

 private:
  Numbers smallest() const {
    Numbers all = p.input_shape;
    for (auto& n : all) n >>= p.channels.size();
    return all;
  }
  std::pair<Value, Value> encoded(const Scope& s, const Value& image) const {
    Value x = image;
    for (std::size_t i = 0; i < p.channels.size(); ++i)
      x = convolution(s / "blocks" / static_cast<std::int64_t>(i), x, p.channels[i],
                      {.strides = 2,
                       .kernel_size = p.kernel_size,
                       .adn = {.norm = norm_of(p.norm), .act = act_of(p.act)}});
    x = flatten(x, product_of(smallest()));
    return {linear(s / "fc_mu", x, *p.z_dim), linear(s / "fc_var", x, *p.z_dim)};
  }
  Value start(const Scope& s, const Value& seg) const {
    const auto nearest = [size = smallest()](In t) { return nearest_to(t[0], size); };
    const Value x =
        seg.op("resize", nearest, {.attributes = {{"mode", "nearest"}, {"size", smallest()}}});
    // MONAI's Convolution with its own norm and activation.
    return convolution(s / "conv_init", x, p.channels.back(),
                       {.kernel_size = p.kernel_size,
                        .adn = {.norm = NormOptions{.kind = Norm::instance, .affine = false},
                                .act = Act{Act::Kind::prelu, 0.25}}});
  }
  Value decoded(const Scope& s, Value x, const Value& seg) const {
    const std::size_t levels = p.channels.size();
    for (std::size_t i = 0; i < levels; ++i) {
      const std::int64_t out = i + 1 < levels ? p.channels[levels - 2 - i] : p.out_channels;
      x = residual(s / "blocks" / static_cast<std::int64_t>(i), x, out, seg);
      x = magnified(x, 2, p.upsampling_mode != "nearest", false);
    }
    x = conv(s / "last_conv.conv", x, p.out_channels, {.kernel = p.kernel_size});
    return p.last_act ? act(s / "last_conv.adn.A", x, act_of(*p.last_act)) : x;
  }
  Value residual(const Scope& s, const Value& x, std::int64_t out, const Value& seg) const {
    const NormOptions n = norm_of(p.norm);
    const SpadeOptions from{seg, p.spade_intermediate_channels, p.kernel_size};
    const auto activated = [&](const char* name, const Value& v) {
      return act(s / "activation", spade(s / name, v, n, from), act_of(p.act));
    };
    Value y = conv(s / "conv_0.conv", activated("norm_0", x), std::min(x.channels, out));
    y = conv(s / "conv_1.conv", activated("norm_1", y), out);
    if (x.channels == out) return x + y;
    return y + conv(s / "conv_s.conv", spade(s / "norm_s", x, n, from), out, {.kernel = 1});
  }
};

const RegisterNetwork<SpadeNet> registered;

}  // namespace
}  // namespace sluice
