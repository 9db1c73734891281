// Metrics of values voxel by voxel: one number a case.
#pragma once

#include <cmath>

#include "nodes/metric/case_metric.h"

namespace sluice {

template <class Params>
Spec& add_regression_params(Spec& s) {
  return add_case_params<Params>(s,
                                 "Prediction and truth, [C, X, Y, Z] each, or batches of these.");
}

// The mean of of(pred, truth) over voxels, in float64, in one pass without a tensor between.
template <class Of>
double mean_over(const at::Tensor& pred, const at::Tensor& truth, const Of& of) {
  const auto sum = [&]<class T>(const T* p, const T* t, std::int64_t n) {
    constexpr std::int64_t lanes = 8;
    double sums[lanes] = {}, all = 0;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
      for (std::int64_t k = 0; k < lanes; ++k)
        sums[k] += of(static_cast<double>(p[i + k]), static_cast<double>(t[i + k]));
    for (; i < n; ++i) all += of(static_cast<double>(p[i]), static_cast<double>(t[i]));
    for (const double one : sums) all += one;
    return all / static_cast<double>(n);
  };
  const bool floats = pred.scalar_type() == at::kFloat && truth.scalar_type() == at::kFloat;
  const auto type = floats ? at::kFloat : at::kDouble;
  const at::Tensor p = pred.to(at::kCPU, type).contiguous();
  const at::Tensor t = truth.to(at::kCPU, type).contiguous();
  return floats ? sum(p.const_data_ptr<float>(), t.const_data_ptr<float>(), p.numel())
                : sum(p.const_data_ptr<double>(), t.const_data_ptr<double>(), p.numel());
}

inline double squared_difference(double a, double b) { return (a - b) * (a - b); }
inline double absolute_difference(double a, double b) { return std::abs(a - b); }

template <class P>
class RegressionMetric : public CaseMetric<P> {
 protected:
  // [C, ...] each.
  virtual double value(const at::Tensor& pred, const at::Tensor& truth) const = 0;

 private:
  Row row(const Case& c) const final { return {{value(c.pred, c.truth)}, 0, false}; }
};

}  // namespace sluice
