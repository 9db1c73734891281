// average_precision_metric: MONAI's AveragePrecisionMetric.
#include "nodes/metric/curves.h"

namespace sluice {
namespace {

struct AveragePrecision final : CurveMetric {
  static Spec spec() {
    return curve_spec(
        "average_precision_metric",
        "Average precision over an epoch, each class against the others. Metrics: mean (the "
        "average) and class_0, class_1, ...");
  }
  double area(const std::vector<Scored>& all) const override { return average_precision(all); }
};

const Register<AveragePrecision> registered;

}  // namespace
}  // namespace sluice
