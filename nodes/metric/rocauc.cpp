// rocauc: MONAI's ROCAUCMetric, the area under the receiver operating characteristic.
#include "nodes/metric/measures.h"

namespace sluice {
namespace {

struct RocAucParams : MetricParams {
  std::string average = "macro";
  bool softmax = false;
};

struct RocAuc final : PooledMetric<RocAucParams> {
  static Spec spec() {
    Spec s("rocauc",
           "Area under the receiver operating characteristic over an epoch, each class "
           "against the others. Metrics: mean (the average) and class_0, class_1, ...");
    return add_classes_params<Params>(s,
                                      "Scores [N, C], or [N, 1] for two classes, and classes [N].")
        .param("average", &Params::average,
               "macro: the mean over classes; weighted: by their number of samples; micro: all "
               "pairs of sample and class at once; none: no average.")
        .choices({"macro", "weighted", "micro", "none"})
        .param("softmax", &Params::softmax, "The scores are logits: softmax over classes first.");
  }

 private:
  at::Tensor columns(const at::Tensor& scores) const override {
    return p.softmax && scores.size(1) > 1 ? at::softmax(scores, 1) : scores;
  }

  void report(Flush& end) const override {
    const std::int64_t columns = width() - 1;
    if (columns <= 1) {
      if (p.average != "none") end.metric("mean", area_under_curve(pairs(1, 1)));
      return;
    }
    Mean mean;
    std::vector<Scored> all;
    std::vector<double> areas;
    bool lacks = false;  // a class has no samples, or all: no mean, as MONAI's
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto of_class = pairs(c, 1 + c);
      areas.push_back(area_under_curve(of_class));
      const auto samples = std::count_if(of_class.begin(), of_class.end(), is_positive);
      const double weight = p.average == "weighted" ? static_cast<double>(samples) : 1;
      mean.add(weight * areas.back(), weight);
      lacks = lacks || std::isnan(areas.back());
      all.insert(all.end(), of_class.begin(), of_class.end());
    }
    if (p.average == "micro") return end.metric("mean", area_under_curve(all));
    if (p.average != "none") end.metric("mean", lacks ? NAN : mean.value());
    for (std::int64_t c = 0; c < columns; ++c) end.metric(class_metric(c), areas[c]);
  }

  // The scores of a column, and whether each sample is of class c.
  std::vector<Scored> pairs(std::int64_t c, std::int64_t column) const {
    std::vector<Scored> all;
    for (std::int64_t n = 0; n < count(); ++n)
      all.push_back({row(n)[column], row(n)[0] == static_cast<double>(c)});
    return all;
  }
};

const Register<RocAuc> registered;

}  // namespace
}  // namespace sluice
