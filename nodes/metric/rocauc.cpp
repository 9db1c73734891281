// rocauc: MONAI's ROCAUCMetric, the area under the receiver operating characteristic.
#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "nodes/metric/classes.h"

namespace sluice {
namespace {

// The probability that a positive has a higher score than a negative, equals counting half;
// NaN where either is missing. `positive` is 0 or 1 beside each score.
double area(const std::vector<float>& scores, const std::vector<char>& positive) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double below = 0, won = 0, positives = 0;  // negatives below, pairs won, positives so far
  for (std::size_t i = 0; i < order.size();) {
    double here[2] = {0, 0};
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) here[positive[order[i]] != 0] += 1;
    won += here[1] * (below + here[0] / 2);
    below += here[0];
    positives += here[1];
  }
  const double pairs = below * positives;
  return pairs > 0 ? won / pairs : std::numeric_limits<double>::quiet_NaN();
}

struct RocAuc final : Node {
  struct Params {
    std::vector<std::string> keys{"pred", "label"}, class_names;
    std::string average = "macro";
    bool softmax = false;
  } p;

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

  void process(Firing& f) override {
    f.when_done([this, &f] { add(f.in()); });
  }

  void flush(Flush& end) override {
    if (p.average == "micro") {
      end.metric("mean", micro());
    } else {
      std::vector<double> areas;
      for (std::int64_t c = classes_ == 1 ? 1 : 0; c < std::max<std::int64_t>(classes_, 2); ++c)
        areas.push_back(of_class(c));
      if (p.average != "none") end.metric("mean", mean(areas));
      if (classes_ > 1)
        for (std::size_t c = 0; c < areas.size(); ++c)
          end.metric(class_metric(p.class_names, c), areas[c]);
    }
    classes_ = 0;
    scores_.clear();
    truth_.clear();
  }

  void save(State& state) const override {
    state.values = {{"classes", classes_}};
    if (scores_.empty()) return;
    state.tensors["scores"] = at::tensor(scores_);
    state.tensors["truth"] = at::tensor(truth_, at::kLong);
  }
  void load(const State& state) override {
    classes_ = state.values.at("classes");
    if (!state.tensors.contains("scores")) return;
    const at::Tensor s = state.tensors.at("scores").contiguous(),
                     t = state.tensors.at("truth").contiguous();
    scores_.assign(s.const_data_ptr<float>(), s.const_data_ptr<float>() + s.numel());
    truth_.assign(t.const_data_ptr<std::int64_t>(), t.const_data_ptr<std::int64_t>() + t.numel());
  }

 private:
  void add(const Sample& sample) {
    Classified c = classified(sample, p.keys);
    const std::int64_t classes = c.scores.size(1);
    require_names(p.class_names, static_cast<std::size_t>(std::max<std::int64_t>(2, classes)));
    if (classes_ != 0 && classes_ != classes)
      throw DataError(sample.name + ": " + std::to_string(classes) +
                      " classes, unlike the samples before");
    classes_ = classes;
    if (p.softmax && classes > 1) c.scores = at::softmax(c.scores, 1);
    const float* s = c.scores.const_data_ptr<float>();
    const std::int64_t* t = c.truth.const_data_ptr<std::int64_t>();
    scores_.insert(scores_.end(), s, s + c.scores.numel());
    truth_.insert(truth_.end(), t, t + c.truth.numel());
  }

  double of_class(std::int64_t c) const {
    const auto stride = static_cast<std::size_t>(classes_);
    const auto column = classes_ == 1 ? 0 : static_cast<std::size_t>(c);
    std::vector<float> scores;
    std::vector<char> positive;
    for (std::size_t n = 0; n < truth_.size(); ++n) {
      scores.push_back(scores_[n * stride + column]);
      positive.push_back(truth_[n] == c);
    }
    return area(scores, positive);
  }
  double micro() const {
    if (classes_ <= 1) return of_class(1);
    std::vector<char> positive(scores_.size(), 0);
    for (std::size_t n = 0; n < truth_.size(); ++n)
      positive[n * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(truth_[n])] = 1;
    return area(scores_, positive);
  }
  // NaN where a class has no samples, as MONAI's.
  double mean(const std::vector<double>& areas) const {
    double sum = 0, weights = 0;
    for (std::size_t c = 0; c < areas.size(); ++c) {
      const double weight = p.average == "weighted" && classes_ > 1
                                ? std::count(truth_.begin(), truth_.end(), std::int64_t(c))
                                : 1;
      sum += weight * areas[c];
      weights += weight;
    }
    return sum / weights;
  }

  std::int64_t classes_ = 0;
  std::vector<float> scores_;  // [samples, classes]
  std::vector<std::int64_t> truth_;
};

const Register<RocAuc> registered;

}  // namespace
}  // namespace sluice
