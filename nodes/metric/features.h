// Metrics of two sets of features, [N, features] each, over an epoch.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

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

// A row has a sample's features of both sets, NaN for the one that has no more samples.
class FeatureMetric : public RowMetric {
 public:
  using Params = MetricParams;
  Params p;

 protected:
  // Whether the sets have the same number of samples.
  virtual bool same_number() const = 0;
  virtual double value(const at::Tensor& pred, const at::Tensor& truth) const = 0;  // float64
  const MetricParams& common() const final { return p; }

 private:
  void add(const Sample& sample) final {
    const at::Tensor &pred = sample.tensor(p.keys[0]), &truth = sample.tensor(p.keys[1]);
    if (pred.dim() < 2 || truth.dim() < 2 || pred.sizes().slice(1) != truth.sizes().slice(1))
      throw DataError("\"" + p.keys[0] + "\" " + list_text(pred.sizes()) + " and \"" + p.keys[1] +
                      "\" " + list_text(truth.sizes()) + " are not [N, features] both");
    if (same_number() && pred.size(0) != truth.size(0))
      throw DataError("\"" + p.keys[0] + "\" and \"" + p.keys[1] +
                      "\" have different numbers of samples, " + std::to_string(pred.size(0)) +
                      " and " + std::to_string(truth.size(0)));
    const at::Tensor sets[] = {features(sample, 0), features(sample, 1)};
    const std::int64_t width = sets[0].size(1);
    for (std::int64_t n = 0; n < std::max(pred.size(0), truth.size(0)); ++n) {
      std::vector<double> row(static_cast<std::size_t>(2 * width), NAN);
      for (int k = 0; k < 2; ++k)
        if (n < sets[k].size(0))
          std::copy_n(sets[k].const_data_ptr<double>() + n * width, width, row.begin() + k * width);
      append(row, 0, 0, sample.name);
    }
  }
  at::Tensor features(const Sample& sample, std::size_t set) const {
    const at::Tensor t = sample.tensor(p.keys[set]).detach().to(at::kCPU, at::kDouble).flatten(1);
    if (!t.isfinite().all().item<bool>())
      throw DataError("\"" + p.keys[set] + "\" has features that are NaN or infinite");
    return t.contiguous();
  }
  void report(Flush& end) const final {
    if (count() == 0) return end.metric("mean", NAN);
    const at::Tensor pred = epoch(0), truth = epoch(1);
    end.metric("mean", value(pred, truth));
  }
  // All features of a set, [N, features].
  at::Tensor epoch(std::size_t set) const {
    const std::int64_t each = width() / 2;
    std::vector<double> all;
    for (std::int64_t n = 0; n < count(); ++n) {
      const double* from = row(n) + static_cast<std::int64_t>(set) * each;
      if (!std::isnan(*from)) all.insert(all.end(), from, from + each);
    }
    const std::int64_t samples = std::ssize(all) / each;
    if (samples < 2)
      throw DataError("\"" + p.keys[set] + "\" has " + std::to_string(samples) +
                      (samples == 1 ? " sample" : " samples") +
                      " in the epoch; needed are 2 at least");
    return at::tensor(all, at::kDouble).view({samples, each});
  }
};

}  // namespace sluice
