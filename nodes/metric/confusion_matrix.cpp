// confusion_matrix: MONAI's ConfusionMatrixMetric for classifiers, from the counts of all samples.
#include "nodes/metric/measures.h"

namespace sluice {
namespace {

struct ConfusionParams : MetricParams {
  std::string metric_name = "hit rate";
  bool include_background = true;
};

struct ConfusionMatrix final : CountedMetric<ConfusionParams> {
  static Spec spec() {
    Spec s("confusion_matrix",
           "One measure of the confusion of each class with the others, from the counts of "
           "an epoch. Metrics: mean (over classes that have one) and class_0, class_1, ...");
    return add_classes_params<Params>(s, "Scores or logits [N, C], and classes [N].")
        .param("metric_name", &Params::metric_name, "Which measure.")
        .choices(measure_names())
        .param("include_background", &Params::include_background, "Count class 0 too.");
  }
  void report(Flush& end) const override {
    const Measure* measure = find_measure(p.metric_name);
    Mean mean;
    std::vector<double> values;
    for (const Counts& c : counts()) values.push_back(measure->of(c));
    if (!p.include_background && !values.empty()) values.erase(values.begin());
    for (const double v : values) mean.add(v);
    end.metric("mean", mean.value());
    std::int64_t k = p.include_background ? 0 : 1;
    for (const double v : values) end.metric(class_metric(k++), v);
  }
};

const Register<ConfusionMatrix> registered;

}  // namespace
}  // namespace sluice
