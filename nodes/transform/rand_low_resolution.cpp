// rand_low_resolution: batchgeneratorsv2's SimulateLowResolutionTransform; MONAI's, one factor for
// a whole image, is rand_simulate_low_resolution.
#include <cmath>

#include "kernels/image/resizing.h"
#include "nodes/transform/channel_draws.h"

namespace sluice {
namespace {

struct RandLowResolution final : EachChannel<RandLowResolution> {
  struct Params : ChannelParams {
    std::vector<double> scale{0.5, 1};
    std::vector<std::int64_t> ignore_axes;
  } p;

  static Spec spec() {
    return channel_spec<Params>("rand_low_resolution",
                                "Resizes each channel to fewer voxels (nearest) and back "
                                "(linearly), as nnU-Net does.")
        .param("scale", &Params::scale, "[low, high]: factor of all axes' voxels.")
        .length(2, 2)
        .above(0)
        .param("ignore_axes", &Params::ignore_axes, "Spatial axes that keep their voxels.");
  }

  at::Tensor changed(const at::Tensor& x, std::int64_t axes, Random& random) const {
    const Shape3 shape = shape_of(x);
    const double scale = random.uniform(p.scale[0], p.scale[1]);
    Shape3 few = shape;
    for (std::int64_t d = 0; d < axes; ++d)
      if (std::find(p.ignore_axes.begin(), p.ignore_axes.end(), d) == p.ignore_axes.end())
        few[static_cast<std::size_t>(d)] = std::max<std::int64_t>(
            1, static_cast<std::int64_t>(std::nearbyint(
                   static_cast<double>(shape[static_cast<std::size_t>(d)]) * scale)));
    return resize(resize(x, few, Resizing::nearest_exact), shape, Resizing::linear);
  }
};

const Register<RandLowResolution> registered;

}  // namespace
}  // namespace sluice
