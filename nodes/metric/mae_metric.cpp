// mae_metric: MONAI's MAEMetric.
#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct MaeMetric final : RegressionMetric<CaseParams> {
  static Spec spec() {
    Spec s("mae_metric", "Mean absolute error of each case, over channels and voxels.");
    return add_value_params<Params>(s);
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return mean_over(pred, truth, absolute_difference);
  }
};

const Register<MaeMetric> registered;

}  // namespace
}  // namespace sluice
