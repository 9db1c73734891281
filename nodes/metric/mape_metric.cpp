// mape_metric: MONAI's MAPEMetric.
#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct MapeParams : CaseParams {
  double epsilon = 1e-7;
};

struct MapeMetric final : RegressionMetric<MapeParams> {
  static Spec spec() {
    Spec s("mape_metric", "Mean absolute error of each case, percent of the truth.");
    return add_value_params<Params>(s)
        .param("epsilon", &Params::epsilon, "The least that an error is divided by.")
        .above(0);
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return 100 * mean_over(pred, truth, [this]<class V>(const V& a, const V& b) SLUICE_INLINE -> V {
             const V size = absolute(b);
             return absolute(V(a - b)) / (size < p.epsilon ? V{} + p.epsilon : size);
           });
  }
};

const Register<MapeMetric> registered;

}  // namespace
}  // namespace sluice
