// generator: MONAI's Generator (monai.networks.nets.Generator 1.6.1), with its parameter names and
// defaults.
//
//   z ─ linear ─ image of start_shape ─ transposed convolutions with strides, residual units ─▶
//   image
#include "nodes/network/latent.h"
#include "nodes/network/layered_params.h"

namespace sluice {
namespace {

struct Generator final : ImageNetwork<Generator> {
  struct Params : LayeredParams {
    Numbers latent_shape, start_shape;
    std::optional<Json> last_act;
    Params() { spatial_dims = 0; }
  } p;

  static Spec spec() {
    Spec s =
        image_net<Params>("generator",
                          "Images from latent numbers (MONAI's Generator). Each layer multiplies "
                          "extents by its stride; the last one's channels are the output's.",
                          false);
    leave_only(s, "precision");
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
    return add_layered_params<Params>(s, "none")
        .param("last_act", &Params::last_act, "After the last layer; null: none.")
        .choices(act_names());
  }

  std::vector<NetInput> inputs() const {
    return {{NetInput::Kind::vector, "latent", product_of(p.latent_shape)}};
  }
  Values build(const Scope& s, const Values& latent) const {
    p.check();
    const Adn adn = p.adn();
    Value x = image_of(linear(s / "linear", latent[0], product_of(p.start_shape)), p.start_shape);
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
    if (p.last_act) x = act(s / "conv.activation", x, act_of(*p.last_act));
    return {x};
  }
};

const RegisterNetwork<Generator> registered;

}  // namespace
}  // namespace sluice
