// median_filter: MONAI's MedianFilter.
#include "kernels/image/median.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct MedianFilterParams : FilterParams {
  std::vector<std::int64_t> radius{1};
  std::int64_t number_of_passes = 1;
};

struct MedianFilter final : FilterNode<MedianFilterParams> {
  static Spec spec() {
    Spec s("median_filter",
           "Each voxel becomes the median of those around it; outside of the image its border goes "
           "on. Gradients: image.");
    add_filter_params<Params>(s)
        .param("radius", &Params::radius,
               "The window is 2 r + 1 voxels wide, one r or one an axis.")
        .at_least(0)
        .length(1, 3)
        .param("number_of_passes", &Params::number_of_passes, "How often, one after the other.")
        .at_least(1);
    return on_tape(s).any_device();
  }

 protected:
  at::Tensor of(const Sample&, FilterBatch& image) const override {
    require_one_an_axis(p.radius.size(), "radius", image.axes());
    at::Tensor out = image.of;
    for (std::int64_t i = 0; i < p.number_of_passes; ++i) out = median_filter(out, p.radius);
    return out;
  }
};

const Register<MedianFilter> registered;

}  // namespace
}  // namespace sluice
