// confusion_matrix_metric: MONAI's ConfusionMatrixMetric of voxels.
#include "nodes/metric/counts.h"

namespace sluice {
namespace {

struct ConfusionMatrixMetricParams : SegmentationParams {
  std::string metric_name;
  bool compute_sample = false;
  // A constructor: of an aggregate with a string GCC 12 says that it may be uninitialised.
  ConfusionMatrixMetricParams() : metric_name("hit_rate") {}
};

struct ConfusionMatrixMetric final : CountsMetric<ConfusionMatrixMetricParams> {
  static Spec spec() {
    Spec s("confusion_matrix_metric",
           "One measure of the confusion of each class's voxels with the others.");
    return add_counts_params<Params>(s)
        .param("metric_name", &Params::metric_name,
               "Which measure: sensitivity, ppv, f1 score, ... under any of MONAI's names.")
        .choices(measure_names())
        .param("compute_sample", &Params::compute_sample,
               "Measure each class of each case, then reduce; false: reduce the counts, then "
               "measure.");
  }
  void open(const OpenContext& context) override {
    CaseMetric::open(context);
    found_ = find_measure(p.metric_name);
  }
  double measure(const Counts& c) const override { return found_->of(c); }
  bool by_sample() const override { return p.compute_sample; }

 private:
  const Measure* found_ = nullptr;
};

const Register<ConfusionMatrixMetric> registered;

}  // namespace
}  // namespace sluice
