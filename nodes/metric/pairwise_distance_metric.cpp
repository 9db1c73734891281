// pairwise_distance_metric: Ignite's MeanPairwiseDistance, of points whose coordinates are columns.
#include <ATen/Functions.h>

#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct PairwiseParams : CaseParams {
  double p = 2, eps = 1e-6;
  PairwiseParams() { spatial_dims = 1; }
};

struct PairwiseDistanceMetric final : RegressionMetric<PairwiseParams> {
  static Spec spec() {
    Spec s("pairwise_distance_metric",
           "Mean distance of points to the truth's, [coordinates, points] each, as landmarks.");
    return add_value_params<Params>(s)
        .param("p", &Params::p, "The norm; 2: the Euclidean distance.")
        .above(0)
        .param("eps", &Params::eps, "Added to each difference, as in Ignite.");
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    return (pred.to(at::kDouble) - truth.to(at::kDouble) + p.eps)
        .norm(p.p, 0)
        .mean()
        .item<double>();
  }
};

const Register<PairwiseDistanceMetric> registered;

}  // namespace
}  // namespace sluice
