// Metrics of classifiers: scores and classes of a sample or of a batch, pooled over an epoch.
//
// Invariant: scores are [N, C] float32 and the truth [N] int64 on the host, N the same, every class
// below C (below 2 where C is 1); whatever does not fit is a DataError that names the sample.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>

#include "nodes/fields.h"
#include "nodes/metric/metric.h"

namespace sluice {

struct Classified {
  at::Tensor scores, truth;
};

inline Classified classified(const Sample& sample, const std::vector<std::string>& keys) {
  at::Tensor scores = sample.tensor(keys[0]).detach().to(at::kCPU, at::kFloat);
  at::Tensor truth = sample.tensor(keys[1]).to(at::kCPU, at::kLong);
  while (scores.dim() > 2 && scores.size(-1) == 1) scores = scores.squeeze(-1);  // of one pixel
  while (truth.dim() > 2 && truth.size(-1) == 1) truth = truth.squeeze(-1);
  if (scores.dim() == 1) {  // a sample, not a batch
    scores = scores.unsqueeze(0);
    truth = truth.reshape({-1});
  }
  if (truth.dim() == 2 && truth.size(1) == 1) truth = truth.squeeze(1);
  if (scores.dim() != 2 || truth.dim() != 1 || truth.size(0) != scores.size(0))
    throw DataError("\"" + keys[0] + "\" " + list_text(scores.sizes()) + " and \"" + keys[1] +
                    "\" " + list_text(truth.sizes()) + " are not [N, C] scores and [N] classes");
  scores = scores.contiguous();
  truth = truth.contiguous();
  const std::int64_t classes = scores.size(1) == 1 ? 2 : scores.size(1);
  for (std::int64_t n = 0; n < truth.size(0); ++n)
    if (const auto t = truth.const_data_ptr<std::int64_t>()[n]; t < 0 || t >= classes)
      throw DataError("member " + std::to_string(n) + ": class " + std::to_string(t) +
                      "; there are 0 to " + std::to_string(classes - 1));
  return {scores, truth};
}

// The truth as 0 and 1 of each column of scores, which it may be already: several may be true.
struct Labelled {
  at::Tensor scores, truth;  // [N, C]
};

inline Labelled labelled(const Sample& sample, const std::vector<std::string>& keys) {
  const at::Tensor &scores = sample.tensor(keys[0]), &truth = sample.tensor(keys[1]);
  if (scores.sizes() == truth.sizes() && scores.dim() <= 2 && scores.size(-1) > 1) {
    const at::Tensor here = truth.to(at::kCPU, at::kDouble);
    if (here.ne(0).logical_and(here.ne(1)).any().item<bool>())
      throw DataError("\"" + keys[1] + "\" " + list_text(truth.sizes()) +
                      " has values other than 0 and 1");
    const std::int64_t columns = scores.size(-1);
    return {scores.detach().to(at::kCPU, at::kFloat).reshape({-1, columns}),
            here.reshape({-1, columns})};
  }
  const Classified c = classified(sample, keys);
  if (c.scores.size(1) == 1) return {c.scores, c.truth.unsqueeze(1)};
  return {c.scores, at::one_hot(c.truth, c.scores.size(1))};
}

// What such metrics declare.
template <class Params>
Spec& add_classes_params(Spec& s, const char* keys) {
  return add_metric_params<Params>(s, keys)
      .reports({"mean", "class_*"})
      .takes("@keys", Form::any, 0);
}

// A row is a sample's class and what columns() keeps of its scores.
class PooledMetricBase : public RowMetric {
 protected:
  virtual at::Tensor columns(const at::Tensor& scores) const = 0;  // [N, K] of [N, C]

 private:
  void add(const Sample& sample) final {
    const Classified c = classified(sample, common().keys);
    refuse_nan(c.scores, sample.name, common().keys[0]);
    const at::Tensor kept = columns(c.scores).to(at::kDouble).contiguous();
    const double* from = kept.const_data_ptr<double>();
    const std::int64_t classes = std::max<std::int64_t>(2, c.scores.size(1));
    for (std::int64_t n = 0; n < kept.size(0); ++n, from += kept.size(1)) {
      std::vector<double> row{static_cast<double>(c.truth.const_data_ptr<std::int64_t>()[n])};
      row.insert(row.end(), from, from + kept.size(1));
      append(row, classes, 0, sample.name);
    }
  }
};

template <class P>
class PooledMetric : public PooledMetricBase {
 public:
  using Params = P;
  P p;

 protected:
  const MetricParams& common() const final { return p; }
};

// Of one class against the others.
struct Counts {
  double tp = 0, fp = 0, tn = 0, fn = 0;
};

// Of those that count which class has the highest score, the first of equals; of one score: whether
// it is above 0, the logit of 1/2.
template <class P>
class CountedMetric : public PooledMetric<P> {
 protected:
  at::Tensor columns(const at::Tensor& scores) const final {
    return scores.size(1) == 1 ? scores.gt(0) : scores.argmax(1, true);
  }
  // By class.
  std::vector<Counts> counts() const {
    std::vector<Counts> all(static_cast<std::size_t>(this->classes()));
    for (std::int64_t n = 0; n < this->count(); ++n)
      for (std::size_t k = 0; k < all.size(); ++k) {
        const bool is = this->row(n)[0] == static_cast<double>(k);
        const bool said = this->row(n)[1] == static_cast<double>(k);
        (is ? said ? all[k].tp : all[k].fn : said ? all[k].fp : all[k].tn) += 1;
      }
    return all;
  }
};

}  // namespace sluice
