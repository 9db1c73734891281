// rmse_metric: MONAI's RMSEMetric.
#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct RmseMetric final : RegressionMetric<CaseParams> {
  static Spec spec() {
    Spec s("rmse_metric", "Root of the mean squared error of each case, over channels and voxels.");
    return add_value_params<Params>(s);
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return std::sqrt(mean_over(pred, truth, squared_difference));
  }
};

const Register<RmseMetric> registered;

}  // namespace
}  // namespace sluice
