// Metrics of a case: a function from prediction and truth to a row of values, one a class; NaN: not
// defined. The reductions over an epoch's rows are MONAI's. The newest epoch's rows stand in the
// run folder, in cases/NODE.csv: a line a case, a column a class.
//
//   struct DiceMetric final : SegmentationMetric<DiceMetricParams> {
//     Row row(const Case& c) const override {
//       return by_class(c, [&](const ClassOverlap& o, std::int64_t) { return ...; });
//     }
//   };
#pragma once

#include "nodes/metric/metric.h"

namespace sluice {

// One member of a batch, or a sample that was none.
struct Case {
  at::Tensor pred, truth;  // [C, ...]
  const Meta* geometry;    // the truth's
  std::string name;
  at::Tensor counts = {};  // bool [...]: the voxels that count; undefined: all
};

struct Row {
  std::vector<double> values;
  std::int64_t first = 0;  // the class that the first value is of
  bool by_class = true;    // else one value for all
};

struct CaseParams : MetricParams {
  std::string reduction = "mean";
  bool get_not_nans = false;
  std::int64_t spatial_dims = 3;
};

template <class Params>
Spec& add_case_params(Spec& s, const char* keys) {
  return add_metric_params<Params>(s, keys)
      .param("reduction", &Params::reduction,
             "Over an epoch's cases and classes, without what is not defined. mean: each case's "
             "mean over classes, then over cases, and each class's over cases; sum; mean_batch, "
             "sum_batch: by class; mean_channel, sum_channel: by case; none: every value.")
      .choices({"mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel", "none"})
      .param("get_not_nans", &Params::get_not_nans,
             "Also says how many values each metric is of: mean_not_nans, ...")
      .param("spatial_dims", static_cast<std::int64_t Params::*>(&Params::spatial_dims),
             "Spatial axes; one more than C is a batch.")
      .range(1, 3)
      .reports({"mean", "class_*", "sum", "case_*", "mean_not_nans", "sum_not_nans"})
      .takes("@keys", Form::any)
      .axis_count("@keys", "spatial_dims");
}

class CaseMetricBase : public RowMetric {
 public:
  void open(const OpenContext& context) override;

 protected:
  const CaseParams& common() const override = 0;
  virtual Row row(const Case& c) const = 0;
  virtual Case prepared(Case c) const { return c; }
  // Whether a label of so many channels fits a prediction.
  virtual bool channels_fit(std::int64_t pred, std::int64_t truth) const { return pred == truth; }
  // How many numbers a class has in a row, and the metric of these once each is reduced.
  virtual std::size_t numbers() const { return 1; }
  virtual double metric_of(const double* reduced) const { return reduced[0]; }
  using RowMetric::row;

 private:
  void add(const Sample& sample) final;
  void report(Flush& end) const final;
  at::Tensor batched(const Sample& sample, const std::string& key) const;
  void write_cases() const;

  std::filesystem::path table_;  // empty: none is written
};

// With parameters P, which begin with CaseParams.
template <class P>
class CaseMetric : public CaseMetricBase {
 public:
  using Params = P;
  P p;

 protected:
  const CaseParams& common() const final { return p; }
};

}  // namespace sluice
