// absolute_volume_difference_metric: MONAI's AbsoluteVolumeDifferenceMetric.
#include "nodes/metric/segmentation.h"

namespace sluice {
namespace {

struct VolumeDifferenceParams : SegmentationParams {
  bool ignore_empty = true;
};

struct VolumeDifference final : SegmentationMetric<VolumeDifferenceParams> {
  static Spec spec() {
    Spec s("absolute_volume_difference_metric",
           "How many voxels more or less the prediction has, by class and case.");
    return add_segmentation_params<Params>(s).param("ignore_empty", &Params::ignore_empty,
                                                    "A class that the label lacks does not count.");
  }
  Row row(const Case& c) const override {
    return by_class(c, [&](const ClassOverlap& o, std::int64_t) {
      return o.truth == 0 && p.ignore_empty ? NAN : std::abs(o.pred - o.truth);
    });
  }
};

const Register<VolumeDifference> registered;

}  // namespace
}  // namespace sluice
