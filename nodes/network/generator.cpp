// generator: MONAI's Generator (monai.networks.nets.Generator 1.6.1), with its parameter names and
// defaults.
//
//   z ─ linear ─ image of start_shape ─ transposed convolutions with strides, residual units ─▶
//   image
#include <ATen/ATen.h>

#include "nodes/network/built_network.h"

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Generator final : ImageNetwork<Generator> {
  struct Params : ImageNet {
    Numbers latent_shape, start_shape, channels, strides, kernel_size{3};
    std::int64_t num_res_units = 2;
    Json act = "PRELU", norm = "INSTANCE";
    std::optional<double> dropout;
    bool bias = true;
    Params() { spatial_dims = 0; }
  } p;

  static Spec spec() {
    Spec s =
        image_net<Params>("generator", "Images from latent numbers (MONAI's Generator).", false);
    std::erase_if(s.params, [](const auto& q) { return q.name != "precision"; });
    return s.gives("logits", Form::any)
        .dtype("float32")
        .param("latent_shape", &Params::latent_shape, "Shape of a sample's latent numbers.")
        .at_least(1)
        .length(1)
        .required()
        .param("start_shape", &Params::start_shape,
               "Channels and extents of the image that the linear layer makes.")
        .at_least(1)
        .length(3, 4)
        .required()
        .param("channels", &Params::channels, "Of each layer; the last: of the output.")
        .at_least(1)
        .length(1)
        .required()
        .param("strides", &Params::strides, "Of each layer: what it multiplies extents by.")
        .at_least(1)
        .length_of("channels")
        .required()
        .param("kernel_size", &Params::kernel_size, "Odd; a number or one an axis.")
        .at_least(1)
        .param("num_res_units", &Params::num_res_units,
               "Convolutions in a residual unit after each layer; 0: none.")
        .at_least(0)
        .param("act", &Params::act, "As in MONAI: a name, or [name, {arguments}].")
        .param("norm", &Params::norm, "The same.")
        .param("dropout", &Params::dropout,
               "Probability that a value becomes 0 in training; null: none.")
        .range(0, 0.99)
        .param("bias", &Params::bias, "Convolutions have a bias.");
  }

  std::vector<NetInput> inputs() const {
    return {{NetInput::Kind::vector, "latent", product(p.latent_shape)}};
  }
  Values build(const Scope& s, const Values& latent) const {
    for (const std::int64_t k : p.kernel_size)
      if (k % 2 == 0) refuse("kernel sizes must be odd, found " + std::to_string(k));
    const Adn adn{.norm = norm_of(p.norm), .act = act_of(p.act), .dropout = p.dropout.value_or(0)};
    const auto to_image = [shape = p.start_shape](In t) { return t[0].unflatten(1, shape); };
    Value x =
        linear(s / "linear", latent[0], product(p.start_shape))
            .op("to_image", to_image,
                {.channels = p.start_shape[0], .axes = static_cast<int>(p.start_shape.size()) - 1});
    const bool plain = p.num_res_units == 0;
    for (std::size_t i = 0; i < p.channels.size(); ++i) {
      const Scope at = s / ("conv.layer_" + std::to_string(i));
      const bool last = i + 1 == p.channels.size();
      x = convolution(plain ? at : at / 0, x, p.channels[i],
                      {.strides = p.strides[i],
                       .kernel_size = p.kernel_size,
                       .adn = adn,
                       .bias = p.bias,
                       .conv_only = last || !plain,
                       .is_transposed = true});
      if (!plain)
        x = residual_unit(at / 1, x, p.channels[i],
                          {1, p.kernel_size, p.num_res_units, adn, p.bias, last});
    }
    return {x};
  }

 private:
  static std::int64_t product(const Numbers& shape) {
    std::int64_t all = 1;
    for (const std::int64_t n : shape) all *= n;
    return all;
  }
};

const RegisterNetwork<Generator> registered;

}  // namespace
}  // namespace sluice
