// Metrics of values voxel by voxel, or of a few numbers: one number a case.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/base/simd.h"
#include "nodes/metric/case_metric.h"

namespace sluice {

template <class Params>
Spec& add_regression_params(Spec& s) {
  return add_case_params<Params>(s,
                                 "Prediction and truth, [C, X, Y, Z] each, or batches of these.");
}

// The same, and vectors.
template <class Params>
Spec& add_value_params(Spec& s) {
  add_regression_params<Params>(s);
  ParamSpec& axes = s.params.back();
  axes.min = 0;
  axes.doc += " 0: vectors, [C] or [N, C].";
  return s;
}

using D8 = double __attribute__((vector_size(64)));

// The mean of of(pred, truth) over voxels, in float64, in one pass without a tensor between. `of`
// takes double, or eight of them as a vector: left alone, the compiler converts value by value.
template <class Of>
double mean_over(const at::Tensor& pred, const at::Tensor& truth, const Of& of) {
  const auto sum = [&]<class T>(const T* p, const T* t, std::int64_t n) {
    using V = std::conditional_t<std::is_same_v<T, float>, F8, D8>;
    const auto at = [](const T* from) SLUICE_INLINE {
      V v;
      std::memcpy(&v, from, sizeof v);
      return __builtin_convertvector(v, D8);
    };
    double all = 0;
    simd([&, p, t, n]() SLUICE_INLINE {
      D8 even{}, odd{};
      std::int64_t i = 0;
      for (; i + 16 <= n; i += 16) {
        even += of(at(p + i), at(t + i));
        odd += of(at(p + i + 8), at(t + i + 8));
      }
      for (; i < n; ++i) all += of(static_cast<double>(p[i]), static_cast<double>(t[i]));
      even += odd;
      for (int k = 0; k < 8; ++k) all += even[k];
    });
    return all / static_cast<double>(n);
  };
  const bool floats = pred.scalar_type() == at::kFloat && truth.scalar_type() == at::kFloat;
  const auto type = floats ? at::kFloat : at::kDouble;
  const at::Tensor p = pred.to(at::kCPU, type).contiguous();
  const at::Tensor t = truth.to(at::kCPU, type).contiguous();
  return floats ? sum(p.const_data_ptr<float>(), t.const_data_ptr<float>(), p.numel())
                : sum(p.const_data_ptr<double>(), t.const_data_ptr<double>(), p.numel());
}

constexpr auto absolute = []<class V>(const V& x) SLUICE_INLINE -> V {
  const V minus = -x;
  return x > minus ? x : minus;  // one instruction
};
constexpr auto squared_difference = []<class V>(const V& a, const V& b)
                                        SLUICE_INLINE -> V { return (a - b) * (a - b); };
constexpr auto absolute_difference = []<class V>(const V& a, const V& b)
                                         SLUICE_INLINE -> V { return absolute(V(a - b)); };

template <class P>
class RegressionMetric : public CaseMetric<P> {
 protected:
  // [C, ...] each.
  virtual double value(const at::Tensor& pred, const at::Tensor& truth) const = 0;

 private:
  Row row(const Case& c) const final { return {{value(c.pred, c.truth)}, 0, false}; }
};

}  // namespace sluice
