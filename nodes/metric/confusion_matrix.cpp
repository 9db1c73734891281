// confusion_matrix: MONAI's ConfusionMatrixMetric for classifiers, from the counts of all samples.
#include "nodes/metric/measures.h"

namespace sluice {
namespace {

struct ConfusionParams : MetricParams {
  std::string metric_name = "hit rate";
  std::string average = "macro";
  bool include_background = true;
};

struct ConfusionMatrix final : CountedMetric<ConfusionParams> {
  static Spec spec() {
    Spec s("confusion_matrix",
           "One measure of the confusion of each class with the others, from the counts of "
           "an epoch. Metrics: mean (of classes that have one) and class_0, class_1, ...");
    return add_classes_params<Params>(s, "Scores or logits [N, C], and classes [N].")
        .param("metric_name", &Params::metric_name, "Which measure.")
        .choices(measure_names())
        .param(
            "average", &Params::average,
            "mean is that of the classes' measures, or the measure of their counts' sum, which is "
            "what MONAI's handler says.")
        .choices({"macro", "micro"})
        .param("include_background", &Params::include_background, "Count class 0 too.");
  }
  void report(Flush& end) const override {
    const Measure* measure = find_measure(p.metric_name);
    std::vector<Counts> classes = counts();
    const std::int64_t first = p.include_background ? 0 : 1;
    if (!p.include_background && !classes.empty()) classes.erase(classes.begin());
    Mean mean;
    Counts sum;
    for (const Counts& c : classes) {
      mean.add(measure->of(c));
      sum = {sum.tp + c.tp, sum.fp + c.fp, sum.tn + c.tn, sum.fn + c.fn};
    }
    end.metric("mean", p.average == "micro" ? measure->of(sum) : mean.value());
    for (std::size_t k = 0; k < classes.size(); ++k)
      end.metric(class_metric(first + static_cast<std::int64_t>(k)), measure->of(classes[k]));
  }
};

const Register<ConfusionMatrix> registered;

}  // namespace
}  // namespace sluice
