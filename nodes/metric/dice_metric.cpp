// dice_metric: MONAI's DiceMetric.
#include "nodes/metric/segmentation.h"

namespace sluice {
namespace {

struct DiceMetricParams : SegmentationParams {
  bool ignore_empty = true;
};

struct DiceMetric final : SegmentationMetric<DiceMetricParams> {
  static Spec spec() {
    Spec s("dice_metric", "2 |P and T| / (|P| + |T|) by class and case.");
    add_segmentation_params<Params>(s);
    return add_ignore_empty<Params>(s);
  }
  Row row(const Case& c) const override {
    return by_class(c, [&](const ClassOverlap& o, std::int64_t) {
      if (o.truth > 0 || p.ignore_empty) return o.truth > 0 ? 2 * o.both / (o.truth + o.pred) : NAN;
      return o.pred > 0 ? 0.0 : 1.0;
    });
  }
};

const Register<DiceMetric> registered;

}  // namespace
}  // namespace sluice
