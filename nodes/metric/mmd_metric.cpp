// mmd_metric: MONAI's MMDMetric, with the linear kernel.
#include "nodes/metric/features.h"

namespace sluice {
namespace {

struct MmdMetric final : FeatureMetric {
  static Spec spec() {
    return feature_spec(
        "mmd_metric",
        "Maximum mean discrepancy of two sets of images or of their features over an epoch, of as "
        "many samples each, 2 at least. Metrics: mean.");
  }
  bool same_number() const override { return true; }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    const auto n = static_cast<double>(pred.size(0));
    const auto among = [&](const at::Tensor& x) {  // the mean product of two different rows
      return (x.sum(0).square().sum() - x.square().sum()) / (n * (n - 1));
    };
    const at::Tensor across = (pred.sum(0) * truth.sum(0)).sum() / (n * n);
    return (among(pred) + among(truth) - 2 * across).item<double>();
  }
};

const Register<MmdMetric> registered;

}  // namespace
}  // namespace sluice
