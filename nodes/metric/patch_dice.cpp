// patch_dice: the Dice that nnU-Net reports while it trains ("pseudo Dice"), and its running mean.
#include "kernels/image/labels.h"
#include "nodes/metric/metric.h"

namespace sluice {
namespace {

struct PatchDice final : Node {
  struct Params {
    std::vector<std::string> keys{"pred", "label"}, class_names;
    bool argmax = true;
    std::optional<std::int64_t> ignore_label;
    double momentum = 0.9;
  } p;

  static Spec spec() {
    return Spec("patch_dice",
                "2 |P and T| / (|P| + |T|) of each class over all voxels of an epoch's patches, as "
                "nnU-Net's online evaluation has it, and the running mean of it over epochs. "
                "Metrics: mean (over the classes but background that occur), ema, class_*.")
        .in("sample")
        .param("keys", &Params::keys,
               "Prediction and label, batches: logits [N, C, ...] and class indices [N, 1, ...].")
        .length(2, 2)
        .param("class_names", &Params::class_names,
               "Names for the metrics, one a class, background included; empty: numbers.")
        .param("argmax", &Params::argmax,
               "Classes exclude each other. false: each channel is a region, in where its logit is "
               "above 0; the label has as many channels (and one of what is ignored).")
        .param("ignore_label", &Params::ignore_label,
               "Voxels of this label do not count; of regions those where the label's channel of "
               "this number is set, its last, which the prediction lacks.")
        .param("momentum", &Params::momentum,
               "ema = momentum ema + (1 - momentum) mean; the first epoch's mean begins it.")
        .range(0, 1)
        .ordered()
        .merges()
        .reports({"mean", "ema", "class_*"})
        .takes("@keys", Form::any)
        .any_device();
  }

  void process(Firing& f) override {
    f.when_done([this, &f] { add(f.in()); });
  }

  void flush(Flush& end) override {
    Mean mean;
    const std::size_t first = p.argmax ? 1 : 0;
    for (std::size_t c = first; c < sums_.size(); ++c) {
      const auto& [both, pred, truth] = sums_[c];
      const double dice = ratio(2 * both, pred + truth);
      end.metric("class_" + (p.class_names.empty() ? std::to_string(c) : p.class_names[c]), dice);
      mean.add(dice);
    }
    end.metric("mean", mean.value());
    if (!std::isnan(mean.value()))
      ema_ = std::isnan(ema_) ? mean.value() : p.momentum * ema_ + (1 - p.momentum) * mean.value();
    end.metric("ema", ema_);
    sums_.clear();
  }

  void save(State& state) const override {
    Json sums = Json::array();
    for (const auto& s : sums_) sums.push_back(s);
    state.values = {{"sums", std::move(sums)}};
    if (!std::isnan(ema_)) state.values["ema"] = ema_;
  }
  void load(const State& state) override {
    sums_.clear();
    merge(state);
    ema_ = state.values.value("ema", std::numeric_limits<double>::quiet_NaN());
  }
  // Whole numbers: a sum of them is the same in any order. Of a run that goes on the first process
  // alone knows the running mean.
  void merge(const State& part) override {
    if (std::isnan(ema_)) ema_ = part.values.value("ema", ema_);
    std::size_t c = 0;
    for (const auto& one : part.values.at("sums")) {
      if (c == sums_.size()) sums_.push_back({});
      for (std::size_t k = 0; k < 3; ++k) sums_[c][k] += one[k].get<double>();
      ++c;
    }
  }

 private:
  void add(const Sample& sample) {
    const at::Tensor pred = sample.tensor(p.keys[0]), truth = sample.tensor(p.keys[1]);
    if (pred.dim() < 3 || truth.dim() != pred.dim() || truth.size(0) != pred.size(0))
      throw DataError("\"" + p.keys[0] + "\" and \"" + p.keys[1] +
                      "\" are no batches of the same size");
    const std::int64_t classes = pred.size(1);
    if (!p.argmax && p.ignore_label.value_or(classes) != classes)
      throw Error(Exit::usage, "ignore_label is " + std::to_string(*p.ignore_label) + "; of " +
                                   std::to_string(classes) + " regions the label's channel " +
                                   std::to_string(classes) + " says what is ignored");
    const std::int64_t wanted = p.argmax ? 1 : classes + (p.ignore_label ? 1 : 0);
    if (truth.size(1) != wanted || truth.sizes().slice(2) != pred.sizes().slice(2))
      throw DataError("\"" + p.keys[1] + "\" is " + c10::str(truth.sizes()) + "; the prediction " +
                      c10::str(pred.sizes()) + " wants " + std::to_string(wanted) +
                      " channels of its extents");
    if (!p.class_names.empty() && std::ssize(p.class_names) != classes)
      throw Error(Exit::usage, "class_names has " + std::to_string(p.class_names.size()) +
                                   " names for " + std::to_string(classes) + " classes");
    if (sums_.empty()) sums_.resize(static_cast<std::size_t>(classes));
    if (std::ssize(sums_) != classes)
      throw DataError("\"" + p.keys[0] + "\" has " + std::to_string(classes) +
                      " channels, unlike the batches before");
    for (std::int64_t i = 0; i < pred.size(0); ++i) add(pred[i], truth[i], classes);
  }

  void add(at::Tensor pred, at::Tensor truth, std::int64_t classes) {
    kernels::Overlap o;
    if (p.argmax) {
      pred = kernels::argmax_channels(pred);
      if (p.ignore_label) {
        const at::Tensor ignored = truth.eq(*p.ignore_label);
        pred = pred.masked_fill(ignored, 0);
        truth = truth.masked_fill(ignored, 0);
      }
      o = kernels::class_overlap(pred, truth, classes);
    } else {
      at::Tensor inside = pred.gt(0);
      if (p.ignore_label) {
        const at::Tensor counts = truth.select(0, classes).eq(0);
        truth = truth.narrow(0, 0, classes).ne(0).logical_and(counts);
        inside = inside.logical_and(counts);
      }
      o = kernels::channel_overlap(inside, truth);
    }
    for (std::size_t c = 0; c < sums_.size(); ++c) {
      sums_[c][0] += static_cast<double>(o.both[c]);
      sums_[c][1] += static_cast<double>(o.pred[c]);
      sums_[c][2] += static_cast<double>(o.truth[c]);
    }
  }

  std::vector<std::array<double, 3>> sums_;  // voxels in both, predicted, true; by class
  double ema_ = std::numeric_limits<double>::quiet_NaN();
};

const Register<PatchDice> registered;

}  // namespace
}  // namespace sluice
