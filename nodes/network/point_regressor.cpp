// point_regressor: the Model Zoo's PointRegressor (bundle valve_landmarks), MONAI's Regressor of
// dense blocks, with a convolution and a linear layer for each landmark.
//
//   x ─ dense block of dilations 1, 2, 4 ─ convolution with its stride ─ ... ─┬─ conv / 2 ─ linear
//   ─┐
//                                                                             ├─ conv / 2 ─ linear
//                                                                             ─┤ └─ ... ▼
//                                                   the numbers of all, one after the other, [N,
//                                                   out_shape]
#include "nodes/network/latent.h"
#include "nodes/network/layered_params.h"
#include "nodes/network/unit.h"

namespace sluice {
namespace {

struct PointRegressor final : ImageNetwork<PointRegressor> {
  struct Params : LayeredParams {
    Numbers in_shape, out_shape;
  } p;

  static Spec spec() {
    Spec s = class_net<Params>("point_regressor",
                               "Coordinates of landmarks in whole images (PointRegressor of the "
                               "Model Zoo's valve_landmarks).",
                               false);
    leave_only(s, "precision");
    s.param("in_shape", &Params::in_shape, "Channels and extents of the image.")
        .at_least(1)
        .length(3)
        .required()
        .param("out_shape", &Params::out_shape, "Coordinates of a landmark, and landmarks.")
        .at_least(1)
        .length(2)
        .required();
    return add_layered_params<Params>(s);
  }

  void open(const Spec& spec) {
    p.in_channels = p.in_shape[0];
    p.spatial_dims = 2;
    ImageNetwork::open(spec);
  }

  Values build(const Scope& s, const Value& image) const {
    p.check();
    const Adn adn = p.adn();
    Value x = image;
    for (std::size_t i = 0; i < p.channels.size(); ++i) {
      const Scope layer = s / ("net.layer_" + std::to_string(i));
      const std::int64_t more = p.channels[i] - x.channels;
      if (more < 3)
        refuse("each of channels must be 3 or more above the one before, found " +
               std::to_string(p.channels[i]) + " after " + std::to_string(x.channels));
      for (std::int64_t k = 0; k < 3; ++k) {
        const std::int64_t out = more / 3 + (k == 2 ? more % 3 : 0);
        x = concat({x, unit_or_convolution(layer / 0 / ("layers" + std::to_string(k)), x, out,
                                           {.kernel_size = p.kernel_size,
                                            .subunits = p.num_res_units,
                                            .adn = adn,
                                            .bias = p.bias,
                                            .dilation = std::int64_t{1} << k})});
      }
      x = convolution(layer / 1, x, p.channels[i],
                      {.strides = p.strides[i],
                       .kernel_size = p.kernel_size,
                       .adn = adn,
                       .bias = p.bias,
                       .conv_only = i + 1 == p.channels.size()});
    }
    const Numbers left = p.extents_after_strides(p.in_shape);
    if (left[0] % 2 != 0 || left[1] % 2 != 0)
      refuse("in_shape and strides leave " + std::to_string(left[0]) + " x " +
             std::to_string(left[1]) + " voxels; each must be even");
    Values points;
    for (std::int64_t i = 0; i < p.out_shape[1]; ++i) {
      const Scope path = s / "final.0" / ("catmodule_" + std::to_string(i));
      const Value y = convolution(path / 0, x, 2 * x.channels,
                                  {.strides = 2, .kernel_size = p.kernel_size, .conv_only = true});
      points.push_back(linear(path / 2, flatten(y, product_of(left) / 4), p.out_shape[0]));
    }
    return {concat(points).op("reshape",
                              [shape = p.out_shape](In t) { return t[0].unflatten(1, shape); },
                              {.channels = p.out_shape[0], .axes = 1})};
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "in_shape", IntList(p.in_shape).slice(1));
  }
};

const RegisterNetwork<PointRegressor> registered;

}  // namespace
}  // namespace sluice
