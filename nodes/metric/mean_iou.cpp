// mean_iou: MONAI's MeanIoU.
#include "nodes/metric/segmentation.h"

namespace sluice {
namespace {

struct MeanIouParams : SegmentationParams {
  bool ignore_empty = true;
};

struct MeanIou final : SegmentationMetric<MeanIouParams> {
  MeanIou() : SegmentationMetric(true) {}
  static Spec spec() {
    Spec s("mean_iou", "|P and T| / |P or T| by class and case.");
    add_segmentation_params<Params>(s);
    return add_ignore_empty<Params>(s);
  }
  Row row(const Case& c) const override {
    return by_class(c, [&](const ClassOverlap& o, std::int64_t) {
      if (o.truth == 0 && p.ignore_empty) return static_cast<double>(NAN);
      const double either = o.truth + o.pred - o.both;
      return either > 0 ? o.both / either : 1;
    });
  }
};

const Register<MeanIou> registered;

}  // namespace
}  // namespace sluice
