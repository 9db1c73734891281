// median_smooth: MONAI's MedianSmoothd.
#include <ATen/Functions.h>

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
        .changes("@keys")
        .dtype("float32");
  }

  // Channel by channel, a slab of the first axis at a time, so that the windows of a large volume
  // are never all in memory.
  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const std::int64_t axes = field.tensor.dim() - 1;
    const at::Tensor x = to_volume(field.tensor).to(at::kFloat);
    Shape3 r{};
    std::int64_t window = 1;
    for (std::int64_t d = 0; d < axes; ++d) {
      r[d] = per_key(p.radius, static_cast<std::size_t>(d));
      window *= 2 * r[d] + 1;
    }
    const at::Tensor padded = at::replication_pad3d(x, {r[2], r[2], r[1], r[1], r[0], r[0]});
    const at::Tensor out = at::empty_like(x);
    for (std::int64_t c = 0; c < x.size(0); ++c)
      for (std::int64_t at = 0; at < x.size(1); ++at) {
        const at::Tensor windows = padded[c]
                                       .narrow(0, at, 2 * r[0] + 1)
                                       .unfold(1, 2 * r[1] + 1, 1)
                                       .unfold(2, 2 * r[2] + 1, 1);
        out[c][at].copy_(std::get<0>(
            windows.permute({1, 2, 0, 3, 4}).reshape({x.size(2), x.size(3), window}).median(-1)));
      }
    field.tensor = from_volume(out, axes);
  }
};

const Register<MedianSmooth> registered;

}  // namespace
}  // namespace sluice
