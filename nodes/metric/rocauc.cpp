// rocauc: MONAI's ROCAUCMetric, the area under the receiver operating characteristic.
#include "nodes/metric/curves.h"

namespace sluice {
namespace {

struct RocAuc final : CurveMetric {
  static Spec spec() {
    Spec s("rocauc",
           "Area under the receiver operating characteristic over an epoch, each class against the "
           "others. Metrics: mean (the average) and class_0, class_1, ...");
    return add_curve_params<Params>(s);
  }
  double area(const std::vector<Scored>& of_class) const override {
    return area_under_curve(of_class);
  }
};

const Register<RocAuc> registered;

}  // namespace
}  // namespace sluice
