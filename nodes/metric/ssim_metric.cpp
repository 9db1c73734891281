// ssim_metric: MONAI's SSIMMetric.
#include "nodes/metric/ssim.h"

namespace sluice {
namespace {

struct SsimMetricParams : CaseParams {
  SsimParams ssim;
};

struct SsimMetric final : RegressionMetric<SsimMetricParams> {
  static Spec spec() {
    Spec s("ssim_metric", "Structural similarity of each case, the mean over channels and voxels.");
    add_regression_params<Params>(s);
    return add_ssim_params(s, &Params::ssim, "win_size");
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return mean_of(ssim(as_batch(pred), as_batch(truth), p.ssim).value);
  }
};

const Register<SsimMetric> registered;

}  // namespace
}  // namespace sluice
