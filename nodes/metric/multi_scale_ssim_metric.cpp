// multi_scale_ssim_metric: MONAI's MultiScaleSSIMMetric (Wang, Simoncelli, Bovik 2003).
#include <ATen/ATen.h>

#include "nodes/metric/ssim.h"

namespace sluice {
namespace {

struct MultiScaleSsimParams : CaseParams {
  SsimParams ssim;
  std::vector<double> weights{0.0448, 0.2856, 0.3001, 0.2363, 0.1333};
};

struct MultiScaleSsim final : RegressionMetric<MultiScaleSsimParams> {
  static Spec spec() {
    Spec s(
        "multi_scale_ssim_metric",
        "Structural similarity of each case at several resolutions, each half of the one before.");
    add_regression_params<Params>(s);
    return add_ssim_params(s, &Params::ssim, "kernel_size")
        .param("weights", &Params::weights, "Power of each resolution, the finest first.")
        .length(1);
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    at::Tensor x = as_batch(pred), y = as_batch(truth);
    double product = 1;
    for (std::size_t i = 0; i < p.weights.size(); ++i) {
      const Ssim s = ssim(x, y, p.ssim);
      const bool last = i + 1 == p.weights.size();
      product *= std::pow(std::max(0.0, mean_of(last ? s.value : s.contrast)), p.weights[i]);
      if (last) break;
      x = halved(x);
      y = halved(y);
    }
    return product;
  }

 private:
  static at::Tensor halved(const at::Tensor& x) {
    const std::vector<std::int64_t> two(static_cast<std::size_t>(x.dim() - 2), 2);
    if (two.size() == 1) return at::avg_pool1d(x, two);
    return two.size() == 3 ? at::avg_pool3d(x, two) : at::avg_pool2d(x, two);
  }
};

const Register<MultiScaleSsim> registered;

}  // namespace
}  // namespace sluice
