// Metrics of two sets of features, [N, features] each, over an epoch.
#pragma once

#include <ATen/ATen.h>

#include "nodes/fields.h"
#include "nodes/metric/metric.h"

namespace sluice {

inline Spec feature_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does));
  add_metric_params<MetricParams>(s, "Features of made and of true images, [N, ...] each.")
      .reports({"mean"})
      .takes("@keys", Form::any, 0);
  return s;
}

// A row has a sample's features of both.
class FeatureMetric : public RowMetric {
 public:
  using Params = MetricParams;
  Params p;

 protected:
  virtual double value(const at::Tensor& pred, const at::Tensor& truth) const = 0;  // float64
  const MetricParams& common() const final { return p; }

 private:
  void add(const Sample& sample) final {
    const at::Tensor &pred = sample.tensor(p.keys[0]), &truth = sample.tensor(p.keys[1]);
    if (pred.sizes() != truth.sizes() || pred.dim() < 2)
      throw DataError("\"" + p.keys[0] + "\" " + list_text(pred.sizes()) + " and \"" + p.keys[1] +
                      "\" " + list_text(truth.sizes()) + " are not [N, features] both");
    const auto host = [](const at::Tensor& t) {
      return t.detach().to(at::kCPU, at::kDouble).flatten(1);
    };
    const at::Tensor rows = at::cat({host(pred), host(truth)}, 1).contiguous();
    const double* from = rows.const_data_ptr<double>();
    for (std::int64_t n = 0; n < rows.size(0); ++n, from += rows.size(1))
      append({from, from + rows.size(1)}, 0, 0, sample.name);
  }
  void report(Flush& end) const final {
    if (count() < 2) return end.metric("mean", NAN);
    at::Tensor all = at::empty({count(), width()}, at::kDouble);
    std::copy(row(0), row(0) + count() * width(), all.mutable_data_ptr<double>());
    end.metric("mean", value(all.slice(1, 0, width() / 2), all.slice(1, width() / 2)));
  }
};

}  // namespace sluice
