// fid_metric: MONAI's FIDMetric (Heusel et al. 2017), of features that a network made.
#include "nodes/metric/features.h"

namespace sluice {
namespace {

struct FidMetric final : FeatureMetric {
  static Spec spec() {
    return feature_spec(
        "fid_metric",
        "Frechet distance of the normal distributions of two sets of features over an epoch, of "
        "2 samples at least each. Metrics: mean.");
  }
  bool same_number() const override { return false; }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    const at::Tensor a = covariance(pred), b = covariance(truth);
    const at::Tensor far = (pred.mean(0) - truth.mean(0)).square().sum();
    // The trace of the root of a b is that of the root of the symmetric r b r, with r r = a.
    const auto [values, vectors] = at::linalg_eigh(a);
    const at::Tensor r = at::matmul(vectors * values.clamp_min(0).sqrt(), vectors.t());
    const at::Tensor roots =
        at::linalg_eigvalsh(at::matmul(at::matmul(r, b), r)).clamp_min(0).sqrt();
    return (far + a.trace() + b.trace() - 2 * roots.sum()).item<double>();
  }

 private:
  static at::Tensor covariance(const at::Tensor& x) {
    const at::Tensor centred = x - x.mean(0);
    return at::matmul(centred.t(), centred) / static_cast<double>(x.size(0) - 1);
  }
};

const Register<FidMetric> registered;

}  // namespace
}  // namespace sluice
