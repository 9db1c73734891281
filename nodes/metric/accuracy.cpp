// accuracy: the share of samples whose highest score is at their class.
#include "nodes/metric/classes.h"

namespace sluice {
namespace {

struct Accuracy final : CountedMetric<MetricParams> {
  static Spec spec() {
    Spec s("accuracy",
           "The share of samples whose highest score is at their class. Metrics: mean (over "
           "all samples) and class_0, class_1, ... (over each class's samples).");
    return add_classes_params<Params>(s, "Scores or logits [N, C], and classes [N].");
  }
  void report(Flush& end) const override {
    double right = 0;
    for (const Counts& c : counts()) right += c.tp;
    end.metric("mean", ratio(right, static_cast<double>(count())));
    std::int64_t k = 0;
    for (const Counts& c : counts()) end.metric(class_metric(k++), ratio(c.tp, c.tp + c.fn));
  }
};

const Register<Accuracy> registered;

}  // namespace
}  // namespace sluice
