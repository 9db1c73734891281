// median_smooth: MONAI's MedianSmoothd.
#include "kernels/image/median.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct MedianSmooth final : EachKey<MedianSmooth> {
  struct Params : KeyParams {
    std::vector<std::int64_t> radius{1};
  } p;

  static Spec spec() {
    return each_key_spec<Params>("median_smooth",
                                 "Each voxel becomes the median of the voxels around it.",
                                 "Fields [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("radius", &Params::radius,
               "The window is 2 r + 1 voxels wide, one r or one an axis; outside of the image its "
               "border goes on.")
        .at_least(0)
        .length(1, 3)
        .takes("@keys", Form::image, 2, 3)
        .per_axis("@keys", "radius")
        .changes("@keys")
        .dtype("float32");
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const auto radius = one_an_axis(p.radius, field.tensor.dim() - 1, "radius");
    field.tensor = median_filter(field.tensor.to(at::kFloat).unsqueeze(0), radius).squeeze(0);
  }
};

const Register<MedianSmooth> registered;

}  // namespace
}  // namespace sluice
