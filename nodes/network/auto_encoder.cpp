// auto_encoder, var_auto_encoder: MONAI's AutoEncoder and VarAutoEncoder (monai.networks.nets
// 1.6.1) with their parameter names and defaults. Kingma, Welling 2013.
//
//   x ─ encode: units with strides ─ intermediate: dilated units ─ decode: transposed ─▶ image
//   var_auto_encoder, between the last two: linear mu, logvar ─ z = mu + deviation * noise ─ linear
#include <ATen/ATen.h>

#include "nodes/network/latent.h"
#include "nodes/network/layered_params.h"
#include "nodes/network/unit.h"

namespace sluice {
namespace {

struct CoderParams : LayeredParams {
  Numbers up_kernel_size{3}, inter_channels, inter_dilations;
  std::int64_t num_inter_units = 2;
  CoderParams() { num_res_units = 0; }
};

template <class Params>
Spec coder_spec(Spec s) {
  return add_layered_params<Params>(s)
      .param("up_kernel_size", &Params::up_kernel_size, "As kernel_size, for the way back.")
      .at_least(1)
      .param("inter_channels", &Params::inter_channels, "Of units at the lowest extents.")
      .at_least(1)
      .param("inter_dilations", &Params::inter_dilations, "Theirs; empty: 1.")
      .at_least(1)
      .param("num_inter_units", &Params::num_inter_units, "As num_res_units, of these units.")
      .at_least(0);
}

// What both networks are made of.
struct Coder {
  const CoderParams& p;

  void check() const {
    p.check();
    require_odd_kernels(p.up_kernel_size);
    if (!p.inter_dilations.empty())
      require_length("inter_dilations", p.inter_dilations.size(), "inter_channels",
                     p.inter_channels.size());
  }
  Value unit(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride,
             std::int64_t subunits, bool last = false, std::int64_t dilation = 1) const {
    return unit_or_convolution(s, x, out,
                               {stride, p.kernel_size, subunits, p.adn(), p.bias, last, dilation});
  }
  Value encoded(const Scope& s, Value x) const {
    for (std::size_t i = 0; i < p.channels.size(); ++i)
      x = unit(s / "encode" / ("encode_" + std::to_string(i)), x, p.channels[i], p.strides[i],
               p.num_res_units);
    for (std::size_t i = 0; i < p.inter_channels.size(); ++i)
      x = unit(s / "intermediate" / ("inter_" + std::to_string(i)), x, p.inter_channels[i], 1,
               p.num_inter_units, false, p.inter_dilations.empty() ? 1 : p.inter_dilations[i]);
    return x;
  }
  Value decoded(const Scope& s, Value x) const {
    const std::size_t levels = p.channels.size();
    for (std::size_t i = 0; i < levels; ++i) {
      const Scope at = s / "decode" / ("decode_" + std::to_string(i));
      const bool last = i + 1 == levels;
      const std::int64_t out = last ? p.out_channels : p.channels[levels - 2 - i];
      x = convolution(at / "conv", x, out,
                      {.strides = p.strides[levels - 1 - i],
                       .kernel_size = p.up_kernel_size,
                       .adn = p.adn(),
                       .bias = p.bias,
                       .conv_only = last && p.num_res_units == 0,
                       .is_transposed = true});
      if (p.num_res_units > 0) x = unit(at / "resunit", x, out, 1, 1, last);
    }
    return x;
  }
};

struct AutoEncoder final : ImageNetwork<AutoEncoder> {
  struct Params : CoderParams {
  } p;
  static constexpr int least_axes = 1;
  static Spec spec() {
    return coder_spec<Params>(image_net<Params>(
        "auto_encoder", "Convolutions down and up again, without skips (MONAI's AutoEncoder).",
        true, "Channels of the output."));
  }
  Values build(const Scope& s, const Value& image) const {
    const Coder coder{p};
    coder.check();
    return {coder.decoded(s, coder.encoded(s, image))};
  }
};

struct VarAutoEncoder final : ImageNetwork<VarAutoEncoder> {
  struct Params : CoderParams, LatentParams {
    Numbers in_shape;
    bool use_sigmoid = true;
  } p;
  static constexpr int least_axes = 1;
  static Spec spec() {
    Spec s = image_net<Params>(
        "var_auto_encoder",
        "Autoencoder with normally distributed latent numbers (MONAI's VarAutoEncoder). Further "
        "outputs: mu, logvar (gaussian_kl_loss: \"spread\": \"logvar\") and the latent numbers z.",
        true, "Channels of the output.");
    leave_out(s, {"in_channels"});
    s = coder_spec<Params>(std::move(s))
            .param("in_shape", &Params::in_shape, "Channels and extents of the image.")
            .at_least(1)
            .length(2, 4)
            .required()
            .param("use_sigmoid", &Params::use_sigmoid, "The output is between 0 and 1.");
    return add_latent_params<Params>(s);
  }

  void open(const Spec& spec) {
    p.in_channels = p.in_shape[0];
    ImageNetwork::open(spec);
  }
  Values build(const Scope& s, const Value& image) const {
    const Coder coder{p};
    coder.check();
    require_per_axis("in_shape, after the channels,", p.in_shape.size() - 1, image.axes);
    if (!p.inter_channels.empty() && p.inter_channels.back() != p.channels.back())
      refuse("the last of inter_channels must be the last of channels");
    Numbers smallest = p.extents_after_strides(p.in_shape);
    const Value x = flatten(coder.encoded(s, image), product_of(smallest));
    smallest.insert(smallest.begin(), p.channels.back());
    const auto [mu, logvar, z] = latent_of(s, x, p);
    const Value y = image_of(relu(linear(s / "decodeL", z, x.channels)), smallest);
    const Value out = coder.decoded(s, y);
    return {p.use_sigmoid ? sigmoid(out) : out, mu, logvar, z};
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "in_shape", IntList(p.in_shape).slice(1));
  }
};

const RegisterNetwork<AutoEncoder> registered;
const RegisterNetwork<VarAutoEncoder> registered_var;

}  // namespace
}  // namespace sluice
