// regressor, classifier, discriminator, critic: MONAI's Regressor and what derives from it
// (monai.networks.nets 1.6.1), with their parameter names and defaults.
//
//   x ─ residual units (or convolutions), each with its stride ─ linear ─▶ numbers of out_shape
//   critic: the mean over all channels and voxels instead of the linear layer
#include "nodes/network/latent.h"
#include "nodes/network/layered_params.h"
#include "nodes/network/unit.h"

namespace sluice {
namespace {

enum class Regressing { regressor, classifier, discriminator, critic };

template <Regressing kind>
struct Regressor final : ImageNetwork<Regressor<kind>> {
  static constexpr bool adversary = kind == Regressing::discriminator || kind == Regressing::critic;
  struct Params : LayeredParams {
    Numbers in_shape, out_shape{1};
    std::int64_t classes = 1;
    std::optional<Json> last_act;
    Params() {
      if (adversary) dropout = 0.25;
      if (kind == Regressing::discriminator) last_act = "SIGMOID";
    }
  } p;

  static Spec spec() {
    Spec s = class_net<Params>(
        kind == Regressing::regressor       ? "regressor"
        : kind == Regressing::classifier    ? "classifier"
        : kind == Regressing::discriminator ? "discriminator"
                                            : "critic",
        kind == Regressing::regressor    ? "Numbers of whole images (MONAI's Regressor)."
        : kind == Regressing::classifier ? "Classes of whole images (MONAI's Classifier)."
        : kind == Regressing::discriminator
            ? "How true an image is, from 0 to 1 (MONAI's Discriminator)."
            : "How true an image is, a number (MONAI's Critic).",
        false);
    leave_only(s, "precision");
    s.param("in_shape", &Params::in_shape, "Channels and extents of the image.")
        .at_least(1)
        .length(2, 4)
        .required();
    if (kind == Regressing::regressor)
      s.param("out_shape", &Params::out_shape, "Shape of a sample's numbers.")
          .at_least(1)
          .length(1)
          .required();
    if (kind == Regressing::classifier)
      s.param("classes", &Params::classes, "How many.").at_least(1).required();
    add_layered_params<Params>(s);
    if (kind == Regressing::classifier || kind == Regressing::discriminator)
      s.param("last_act", &Params::last_act, "After the linear layer; null: none.")
          .choices(act_names());
    return s;
  }

  void open(const Spec& spec) {
    p.in_channels = p.in_shape[0];
    p.spatial_dims = static_cast<std::int64_t>(p.in_shape.size()) - 1;
    ImageNetwork<Regressor>::open(spec);
  }

  Values build(const Scope& s, const Value& image) const {
    p.check();
    const Adn adn = p.adn();
    Value x = image;
    for (std::size_t i = 0; i < p.channels.size(); ++i) {
      const Scope at = s / ("net.layer_" + std::to_string(i));
      const bool last = i + 1 == p.channels.size();
      x = unit_or_convolution(at, x, p.channels[i],
                              {p.strides[i], p.kernel_size, p.num_res_units, adn, p.bias, last});
    }
    if (kind == Regressing::critic)
      return {x.op("mean", [](In t) { return t[0].flatten(1).mean(1, /*keepdim=*/true); },
                   {.channels = 1, .axes = 0})};
    const std::int64_t voxels = product_of(p.extents_after_strides(p.in_shape));
    const auto out_shape = kind == Regressing::regressor ? p.out_shape : Numbers{p.classes};
    x = linear(s / "final.1", flatten(x, voxels), product_of(out_shape));
    if (p.last_act) x = act(s / "final.lastact", x, act_of(*p.last_act));
    if (out_shape.size() == 1) return {x};
    return {x.op("reshape", [out_shape](In t) { return t[0].unflatten(1, out_shape); },
                 {.channels = out_shape[0], .axes = static_cast<int>(out_shape.size()) - 1})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "in_shape", IntList(p.in_shape).slice(1));
  }
};

const RegisterNetwork<Regressor<Regressing::regressor>> regressor;
const RegisterNetwork<Regressor<Regressing::classifier>> classifier;
const RegisterNetwork<Regressor<Regressing::discriminator>> discriminator;
const RegisterNetwork<Regressor<Regressing::critic>> critic;

}  // namespace
}  // namespace sluice
