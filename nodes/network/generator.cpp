// generator: MONAI's Generator (monai.networks.nets.Generator 1.6.1), with its parameter names and
// defaults.
//
//   z ─ linear ─ image of start_shape ─ transposed convolutions with strides, residual units ─▶
//   image
#include <ATen/ATen.h>

#include "nodes/network/layered_params.h"

namespace sluice {
namespace {

struct Generator final : ImageNetwork<Generator> {
  struct Params : LayeredParams {
    Numbers latent_shape, start_shape;
    Params() { spatial_dims = 0; }
  } p;

  static Spec spec() {
    Spec s =
        image_net<Params>("generator",
                          "Images from latent numbers (MONAI's Generator). Each layer multiplies "
                          "extents by its stride; the last one's channels are the output's.",
                          false);
    std::erase_if(s.params, [](const auto& q) { return q.name != "precision"; });
    s.gives("logits", Form::any)
        .dtype("float32")
        .param("latent_shape", &Params::latent_shape, "Shape of a sample's latent numbers.")
        .at_least(1)
        .length(1)
        .required()
        .param("start_shape", &Params::start_shape,
               "Channels and extents of the image that the linear layer makes.")
        .at_least(1)
        .length(2, 4)
        .required();
    return add_layered_params<Params>(s, "none");
  }

  std::vector<NetInput> inputs() const {
    return {{NetInput::Kind::vector, "latent", product(p.latent_shape)}};
  }
  Values build(const Scope& s, const Values& latent) const {
    for (const std::int64_t k : p.kernel_size)
      if (k % 2 == 0) refuse("kernel sizes must be odd, found " + std::to_string(k));
    const Adn adn = p.adn();
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
