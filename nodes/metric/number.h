// Metrics of one field alone: a number of each sample or batch, and their mean over an epoch.
#pragma once

#include "nodes/metric/metric.h"

namespace sluice {

struct NumberParams : MetricParams {
  std::string key = "loss";
};

template <class Params>
Spec& add_number_params(Spec& s, const char* key, Form form) {
  return s.in("sample")
      .param("key", &Params::key, key)
      .ordered()
      .merges()
      .any_device()
      .reports({"mean"})
      .takes("@key", form, form == Form::any ? 0 : 1);
}

template <class P>
class NumberMetric : public RowMetric {
 public:
  using Params = P;
  P p;

 protected:
  // What is not finite does not count.
  virtual double value(const at::Tensor& field) const = 0;
  const MetricParams& common() const final { return p; }

 private:
  void add(const Sample& sample) final { append({value(sample.tensor(p.key))}, 0, 0, sample.name); }
  void report(Flush& end) const final {
    Mean mean;
    for (std::int64_t i = 0; i < count(); ++i)
      if (std::isfinite(row(i)[0])) mean.add(row(i)[0]);
    end.metric("mean", mean.value());
  }
};

}  // namespace sluice
