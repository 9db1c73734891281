// confusion_matrix: MONAI's ConfusionMatrixMetric for classifiers, from the counts of all samples.
#include <cmath>
#include <limits>

#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "nodes/metric/classes.h"

namespace sluice {
namespace {

// Of one class against the others.
struct Counts {
  double tp = 0, fp = 0, tn = 0, fn = 0;
};

double ratio(double part, double whole) {
  return whole != 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

double sensitivity(const Counts& c) { return ratio(c.tp, c.tp + c.fn); }
double specificity(const Counts& c) { return ratio(c.tn, c.tn + c.fp); }
double precision(const Counts& c) { return ratio(c.tp, c.tp + c.fp); }
double negative_value(const Counts& c) { return ratio(c.tn, c.tn + c.fn); }

double prevalence_threshold(const Counts& c) {
  const double tpr = sensitivity(c), tnr = specificity(c);
  return ratio(std::sqrt(tpr * (1 - tnr)) + tnr - 1, tpr + tnr - 1);
}

double matthews(const Counts& c) {
  return ratio(c.tp * c.tn - c.fp * c.fn,
               std::sqrt((c.tp + c.fp) * (c.tp + c.fn) * (c.tn + c.fp) * (c.tn + c.fn)));
}

struct Measure {
  const char* name;  // MONAI's
  double (*of)(const Counts&);
};

const Measure measures[] = {
    {"sensitivity", sensitivity},
    {"specificity", specificity},
    {"precision", precision},
    {"negative predictive value", negative_value},
    {"miss rate", [](const Counts& c) { return ratio(c.fn, c.fn + c.tp); }},
    {"fall out", [](const Counts& c) { return ratio(c.fp, c.fp + c.tn); }},
    {"false discovery rate", [](const Counts& c) { return ratio(c.fp, c.fp + c.tp); }},
    {"false omission rate", [](const Counts& c) { return ratio(c.fn, c.fn + c.tn); }},
    {"prevalence threshold", prevalence_threshold},
    {"threat score", [](const Counts& c) { return ratio(c.tp, c.tp + c.fn + c.fp); }},
    {"accuracy", [](const Counts& c) { return ratio(c.tp + c.tn, c.tp + c.tn + c.fp + c.fn); }},
    {"balanced accuracy", [](const Counts& c) { return (sensitivity(c) + specificity(c)) / 2; }},
    {"f1 score", [](const Counts& c) { return ratio(2 * c.tp, 2 * c.tp + c.fn + c.fp); }},
    {"matthews correlation coefficient", matthews},
    {"fowlkes mallows index",
     [](const Counts& c) { return std::sqrt(precision(c) * sensitivity(c)); }},
    {"informedness", [](const Counts& c) { return sensitivity(c) + specificity(c) - 1; }},
    {"markedness", [](const Counts& c) { return precision(c) + negative_value(c) - 1; }},
};

std::vector<std::string> measure_names() {
  std::vector<std::string> names;
  for (const Measure& m : measures) names.emplace_back(m.name);
  return names;
}

struct ConfusionMatrix final : Node {
  struct Params {
    std::vector<std::string> keys{"pred", "label"}, class_names;
    std::string metric_name = "hit rate";
    bool include_background = true;
  } p;

  static Spec spec() {
    auto names = measure_names();
    names.insert(names.begin(), "hit rate");  // the sensitivity's other name, and the default
    Spec s("confusion_matrix",
           "One measure of the confusion of each class with the others, from the counts of "
           "an epoch. Metrics: mean (over classes that have one) and class_0, class_1, ...");
    return add_classes_params<Params>(s, "Scores or logits [N, C], and classes [N].")
        .param("metric_name", &Params::metric_name, "Which measure.")
        .choices(names)
        .param("include_background", &Params::include_background, "Count class 0 too.");
  }

  void process(Firing& f) override {
    f.when_done([this, &f] { add(f.in()); });
  }

  void flush(Flush& end) override {
    const std::string name = p.metric_name == "hit rate" ? "sensitivity" : p.metric_name;
    double sum = 0, n = 0;
    std::vector<std::pair<std::size_t, double>> values;
    for (const Measure& m : measures)
      for (std::size_t k = p.include_background ? 0 : 1; m.name == name && k < counts_.size();
           ++k) {
        values.emplace_back(k, m.of(counts_[k]));
        if (std::isnan(values.back().second)) continue;
        sum += values.back().second;
        n += 1;
      }
    end.metric("mean", ratio(sum, n));
    for (const auto& [k, value] : values) end.metric(class_metric(p.class_names, k), value);
    counts_.clear();
  }

  void save(State& state) const override {
    state.values = {{"counts", Json::array()}};
    for (const Counts& c : counts_) state.values["counts"].push_back({c.tp, c.fp, c.tn, c.fn});
  }
  void load(const State& state) override {
    counts_.clear();
    for (const Json& c : state.values.at("counts"))
      counts_.push_back({c.at(0), c.at(1), c.at(2), c.at(3)});
  }

 private:
  void add(const Sample& sample) {
    const Classified c = classified(sample, p.keys);
    const auto classes = static_cast<std::size_t>(std::max<std::int64_t>(2, c.scores.size(1)));
    require_names(p.class_names, classes);
    if (counts_.empty()) counts_.resize(classes);
    if (counts_.size() != classes)
      throw DataError(sample.name + ": " + std::to_string(classes) +
                      " classes, unlike the samples before");
    const auto found = chosen(c.scores);
    for (std::size_t n = 0; n < found.size(); ++n)
      for (std::size_t k = 0; k < classes; ++k) {
        const bool is = c.truth.const_data_ptr<std::int64_t>()[n] == static_cast<std::int64_t>(k);
        const bool said = found[n] == static_cast<std::int64_t>(k);
        (is ? said ? counts_[k].tp : counts_[k].fn : said ? counts_[k].fp : counts_[k].tn) += 1;
      }
  }

  std::vector<Counts> counts_;  // by class
};

const Register<ConfusionMatrix> registered;

}  // namespace
}  // namespace sluice
