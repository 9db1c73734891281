// accuracy: the share of samples whose highest score is at their class.
#include <limits>

#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "nodes/metric/classes.h"

namespace sluice {
namespace {

struct Accuracy final : Node {
  struct Params {
    std::vector<std::string> keys{"pred", "label"}, class_names;
  } p;

  static Spec spec() {
    Spec s("accuracy",
           "The share of samples whose highest score is at their class. Metrics: mean (over "
           "all samples) and class_0, class_1, ... (over each class's samples).");
    return add_classes_params<Params>(s, "Scores or logits [N, C], and classes [N].");
  }

  void process(Firing& f) override {
    f.when_done([this, &f] { add(f.in()); });
  }

  void flush(Flush& end) override {
    std::int64_t all = 0, right = 0;
    for (std::size_t c = 0; c < all_.size(); ++c) all += all_[c], right += right_[c];
    end.metric("mean", share(right, all));
    for (std::size_t c = 0; c < all_.size(); ++c)
      end.metric(class_metric(p.class_names, c), share(right_[c], all_[c]));
    all_.clear();
    right_.clear();
  }

  void save(State& state) const override { state.values = {{"all", all_}, {"right", right_}}; }
  void load(const State& state) override {
    all_ = state.values.at("all").get<std::vector<std::int64_t>>();
    right_ = state.values.at("right").get<std::vector<std::int64_t>>();
  }

 private:
  void add(const Sample& sample) {
    const Classified c = classified(sample, p.keys);
    const auto classes = static_cast<std::size_t>(std::max<std::int64_t>(2, c.scores.size(1)));
    require_names(p.class_names, classes);
    if (all_.empty()) all_.resize(classes), right_.resize(classes);
    if (all_.size() != classes)
      throw DataError(sample.name + ": " + std::to_string(classes) +
                      " classes, unlike the samples before");
    const auto found = chosen(c.scores);
    for (std::size_t n = 0; n < found.size(); ++n) {
      const std::int64_t truth = c.truth.const_data_ptr<std::int64_t>()[n];
      ++all_[static_cast<std::size_t>(truth)];
      right_[static_cast<std::size_t>(truth)] += found[n] == truth;
    }
  }

  static double share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole)
                     : std::numeric_limits<double>::quiet_NaN();
  }

  std::vector<std::int64_t> all_, right_;  // by class
};

const Register<Accuracy> registered;

}  // namespace
}  // namespace sluice
