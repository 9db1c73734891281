// average_precision_metric: MONAI's AveragePrecisionMetric.
#include "nodes/metric/curves.h"

namespace sluice {
namespace {

struct AveragePrecision final : CurveMetric {
  static Spec spec() {
    Spec s("average_precision_metric",
           "Average precision over an epoch, each class against the others. Metrics: mean (the "
           "average) and class_0, class_1, ...");
    return add_curve_params<Params>(s);
  }
  double area(const std::vector<Scored>& of_class) const override {
    return average_precision(of_class);
  }
};

const Register<AveragePrecision> registered;

}  // namespace
}  // namespace sluice
