// psnr_metric: MONAI's PSNRMetric.
#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct PsnrParams : CaseParams {
  double max_val = 0;
};

struct PsnrMetric final : RegressionMetric<PsnrParams> {
  static Spec spec() {
    Spec s("psnr_metric", "Peak signal-to-noise ratio of each case, decibels.");
    return add_value_params<Params>(s)
        .param("max_val", &Params::max_val, "The range of values: 255 for 8 bits.")
        .required()
        .above(0);
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return 20 * std::log10(p.max_val) - 10 * std::log10(mean_over(pred, truth, squared_difference));
  }
};

const Register<PsnrMetric> registered;

}  // namespace
}  // namespace sluice
