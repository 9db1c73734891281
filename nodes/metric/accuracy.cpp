// accuracy: the share of samples whose highest score is at their class.
#include "nodes/metric/classes.h"
#include "nodes/metric/curve_file.h"

namespace sluice {
namespace {

struct Accuracy final : CountedMetric<MetricParams> {
  static Spec spec() {
    Spec s("accuracy",
           "The share of samples whose highest score is at their class. Metrics: mean (over "
           "all samples) and class_0, class_1, ... (over each class's samples).");
    return add_classes_params<Params>(s, "Scores or logits [N, C], and classes [N].");
  }
  void open(const OpenContext& context) override { confusion_.open(context); }

  void report(Flush& end) const override {
    double right = 0;
    for (const Counts& c : counts()) right += c.tp;
    end.metric("mean", ratio(right, static_cast<double>(count())));
    std::int64_t k = 0;
    for (const Counts& c : counts()) end.metric(class_metric(k++), ratio(c.tp, c.tp + c.fn));
    write_confusion();
  }

 private:
  // How often each class was taken for each, for the report; of at most 50 classes.
  void write_confusion() const {
    const auto n = static_cast<std::size_t>(classes());
    if (n > 50) return;
    std::vector<std::vector<std::int64_t>> counts(n, std::vector<std::int64_t>(n));
    for (std::int64_t i = 0; i < count(); ++i)
      ++counts[static_cast<std::size_t>(row(i)[0])][static_cast<std::size_t>(row(i)[1])];
    std::vector<std::string> names;
    for (std::int64_t c = 0; c < classes(); ++c) names.push_back(class_metric(c).substr(6));
    confusion_.write({{"kind", "confusion"}, {"names", names}, {"counts", counts}});
  }

  CurveFile confusion_;
};

const Register<Accuracy> registered;

}  // namespace
}  // namespace sluice
