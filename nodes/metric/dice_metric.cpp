// dice_metric: MONAI's DiceMetric with reduction "mean" and, by class, "mean_batch".
#include <cmath>
#include <limits>

#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "kernels/image/labels.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

// A mean that leaves NaN out; NaN while nothing was added.
struct Mean {
  double sum = 0, count = 0;
  void add(double value) {
    if (std::isnan(value)) return;
    sum += value;
    count += 1;
  }
  double value() const {
    return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  }
};

struct DiceMetric final : Node {
  struct Params {
    std::vector<std::string> keys{"pred", "label"};
    bool include_background = true, argmax = true, ignore_empty = true;
    std::optional<std::int64_t> num_classes;
    std::int64_t spatial_dims = 3;
  } p;

  static Spec spec() {
    return Spec("dice_metric",
                "2 |P and T| / (|P| + |T|) by class and sample. Metrics: mean (over a sample's "
                "classes, then over samples) and class_0, class_1, ... (over samples).")
        .in("sample")
        .param("keys", &Params::keys,
               "Prediction and label. The prediction is [C, X, Y, Z] scores or [1, X, Y, Z] class "
               "indices, the label [1, X, Y, Z] class indices; or batches of these.")
        .length(2, 2)
        .param("include_background", &Params::include_background, "Count class 0 too.")
        .param("num_classes", &Params::num_classes,
               "Classes, background included; null: the prediction's channels, and for one "
               "channel a binary map, of which class 1 is measured.")
        .range(1, 256)
        .param("argmax", &Params::argmax,
               "Several channels are scores of exclusive classes. false: each channel is a mask "
               "of its own, in the label too.")
        .param("ignore_empty", &Params::ignore_empty,
               "A class that the label lacks does not count; false: 1 if the prediction lacks it "
               "too, else 0.")
        .param("spatial_dims", &Params::spatial_dims, "Spatial axes; one more than C is a batch.")
        .range(1, 3)
        .ordered()
        .reports({"mean", "class_*"})
        .takes("@keys", Form::any)
        .per_axis("@keys", "spatial_dims")
        .any_device();
  }

  void open(const OpenContext&) override {
    if (p.keys.size() != 2)
      throw Error(Exit::usage, "keys needs two names: the prediction's and the label's");
  }

  void process(Firing& f) override {
    f.when_done([this, &f] { add(f.in()); });
  }

  void flush(Flush& end) override {
    end.metric("mean", mean_.value());
    for (std::size_t c = 0; c < classes_.size(); ++c)
      end.metric("class_" + std::to_string(c + first_), classes_[c].value());
    mean_ = {};
    classes_.clear();
  }

  void save(State& state) const override {
    state.values["mean"] = {mean_.sum, mean_.count};
    state.values["first"] = first_;
    state.values["classes"] = Json::array();
    for (const Mean& m : classes_) state.values["classes"].push_back({m.sum, m.count});
  }

  void load(const State& state) override {
    const auto mean = [](const Json& j) { return Mean{j.at(0), j.at(1)}; };
    mean_ = mean(state.values.at("mean"));
    first_ = state.values.at("first");
    classes_.clear();
    for (const Json& j : state.values.at("classes")) classes_.push_back(mean(j));
  }

 private:
  void add(const Sample& sample) {
    const at::Tensor pred = batched(sample, p.keys[0]), truth = batched(sample, p.keys[1]);
    if (pred.size(0) != truth.size(0) || pred.sizes().slice(2) != truth.sizes().slice(2) ||
        truth.size(1) != (p.argmax ? 1 : pred.size(1)))
      throw DataError(sample.name + ": the prediction " + list_text(pred.sizes()) +
                      " and the label " + list_text(truth.sizes()) + " do not fit");
    for (std::int64_t n = 0; n < pred.size(0); ++n)
      count(pred[n], truth[n],
            sample.name + (pred.size(0) > 1 ? " (member " + std::to_string(n) + ")" : ""));
  }

  at::Tensor batched(const Sample& sample, const std::string& key) const {
    const at::Tensor& t = sample.tensor(key);
    if (t.defined() && t.dim() == p.spatial_dims + 1) return t.unsqueeze(0);
    if (t.defined() && t.dim() == p.spatial_dims + 2) return t;
    throw DataError(sample.name + ": field \"" + key + "\" is neither a sample nor a batch of " +
                    std::to_string(p.spatial_dims) + " spatial axes");
  }

  void count(const at::Tensor& pred, const at::Tensor& truth, const std::string& name) {
    const std::int64_t classes = p.num_classes.value_or(p.argmax ? pred.size(0) : 1);
    const bool binary = p.argmax && classes == 1;
    const kernels::Overlap overlap = counted(pred, truth, binary ? 2 : classes, name);
    first_ = binary || (!p.include_background && overlap.both.size() > 1) ? 1 : 0;
    if (classes_.empty()) classes_.resize(overlap.both.size() - first_);
    if (classes_.size() != overlap.both.size() - first_)
      throw DataError(name + ": " + std::to_string(overlap.both.size()) +
                      " classes, unlike the samples before");
    Mean here;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const double dice = dice_of(overlap, c + first_);
      classes_[c].add(dice);
      here.add(dice);
    }
    mean_.add(here.value());
  }

  kernels::Overlap counted(const at::Tensor& pred, const at::Tensor& truth, std::int64_t classes,
                           const std::string& name) const {
    try {
      return p.argmax ? kernels::class_overlap(pred, truth, classes)
                      : kernels::channel_overlap(pred, truth);
    } catch (const DataError& e) {
      throw DataError(name + ": " + e.what());
    }
  }

  double dice_of(const kernels::Overlap& o, std::size_t c) const {
    if (o.truth[c] > 0) return 2.0 * o.both[c] / static_cast<double>(o.truth[c] + o.pred[c]);
    if (p.ignore_empty) return std::numeric_limits<double>::quiet_NaN();
    return o.pred[c] > 0 ? 0.0 : 1.0;
  }

  Mean mean_;
  std::vector<Mean> classes_;
  int first_ = 0;  // the class that classes_[0] stands for
};

const Register<DiceMetric> registered;

}  // namespace
}  // namespace sluice
