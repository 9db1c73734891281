// mse_metric: MONAI's MSEMetric.
#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct MseMetric final : RegressionMetric<CaseParams> {
  static Spec spec() {
    Spec s("mse_metric", "Mean squared error of each case, over channels and voxels.");
    return add_value_params<Params>(s);
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return mean_over(pred, truth, squared_difference);
  }
};

const Register<MseMetric> registered;

}  // namespace
}  // namespace sluice
