// Metrics of values voxel by voxel: one number a case.
#pragma once

#include <ATen/ops/mean.h>

#include "nodes/metric/case_metric.h"

namespace sluice {

template <class Params>
Spec& add_regression_params(Spec& s) {
  return add_case_params<Params>(s,
                                 "Prediction and truth, [C, X, Y, Z] each, or batches of these.");
}

// The mean of one number a voxel.
inline double mean_of(const at::Tensor& t) { return t.mean().item<double>(); }

template <class P>
class RegressionMetric : public CaseMetric<P> {
 protected:
  // Both float64, [C, ...].
  virtual double value(const at::Tensor& pred, const at::Tensor& truth) const = 0;

 private:
  Row row(const Case& c) const final {
    const auto host = [](const at::Tensor& t) { return t.to(at::kCPU, at::kDouble); };
    return {{value(host(c.pred), host(c.truth))}, 0, false};
  }
};

}  // namespace sluice
