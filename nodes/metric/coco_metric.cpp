// coco_metric: MONAI's COCOMetric and matching_batch: average precision and recall of boxes.
#include <algorithm>
#include <numeric>
#include <set>

#include "kernels/image/anchors.h"
#include "nodes/detector.h"
#include "nodes/metric/metric.h"

namespace sluice {
namespace {

struct CocoMetric final : RowMetric {
  struct Params : MetricParams {
    std::string pred_label_key = "pred_label", score_key = "pred_score", label_key = "label";
    std::int64_t num_classes = 1;
    std::vector<double> iou_list{0.1, 0.5, 0.75}, iou_range{0.1, 0.5, 0.05};
    std::vector<std::int64_t> max_detection{1, 5, 100};
    bool per_class = true;
    Params() { keys = {"pred_box", "box"}; }
  } p;

  static Spec spec() {
    Spec s("coco_metric",
           "Average precision and recall of predicted boxes over an epoch's images. Metrics: mAP "
           "over iou_range and AP_10, AP_50, ... at the overlaps of iou_list (in hundredths), both "
           "of the last of max_detection; mAR_1, ... with so many boxes an image, over all "
           "overlaps, and AR_10, ... ; class_0_mAP, ... the same of each class. Classes of which "
           "there is no box count nowhere.");
    add_metric_params<Params>(
        s,
        "Predicted boxes and the truth's, [boxes, 2 axes] in the standard mode, or batches of "
        "them; rows of -1 are none.");
    return s.param("pred_label_key", &Params::pred_label_key, "Classes of the predicted, [boxes].")
        .param("score_key", &Params::score_key, "Their scores, [boxes].")
        .param("label_key", &Params::label_key, "Classes of the truth's, [boxes].")
        .param("num_classes", &Params::num_classes, "Classes, from 0.")
        .at_least(1)
        .required()
        .param("iou_list", &Params::iou_list, "Intersections over union from which a box is found.")
        .range(0, 1)
        .length(1)
        .param("iou_range", &Params::iou_range, "Of the mean: the first, the last, the step.")
        .above(0)
        .length(3, 3)
        .param("max_detection", &Params::max_detection, "Boxes of an image and a class, rising.")
        .at_least(1)
        .length(1)
        .rising()
        .param("per_class", &Params::per_class, "Each class too.")
        .reports({"mAP", "AP_*", "mAR_*", "AR_*", "class_*"})
        .takes("@keys", Form::any, 0)
        .takes("@pred_label_key", Form::any, 0)
        .takes("@score_key", Form::any, 0)
        .takes("@label_key", Form::any, 0);
  }

  void open(const OpenContext&) override {
    const auto& [first, last, step] = std::tie(p.iou_range[0], p.iou_range[1], p.iou_range[2]);
    if (first > last || last > 1) throw Error(Exit::usage, "iou_range must rise, to 1 at most");
    const auto parts = static_cast<std::int64_t>(std::round((last - first) / step));
    for (std::int64_t i = 0; i <= parts; ++i)
      range_.insert(i > 0 && i == parts
                        ? last
                        : first + static_cast<double>(i) *
                                      ((last - first) /
                                       static_cast<double>(std::max<std::int64_t>(parts, 1))));
    std::set<double> all = range_;
    all.insert(p.iou_list.begin(), p.iou_list.end());
    overlaps_.assign(all.begin(), all.end());
  }

 private:
  // A row is a box of the truth, or one that was predicted: its class, score, place among the
  // image's of its class, and for each of overlaps_ whether it finds one of the truth.
  enum Column : std::uint8_t { predicted, box_class, score, place, finds };

  const MetricParams& common() const override { return p; }

  void add(const Sample& sample) override {
    const auto host = [&](const std::string& key) {
      return sample.tensor(key).detach().to(at::kCPU, at::kFloat);
    };
    at::Tensor pred = host(p.keys[0]), truth = host(p.keys[1]), classes = host(p.pred_label_key),
               scores = host(p.score_key), labels = host(p.label_key);
    if (truth.dim() == 2)
      for (at::Tensor* t : {&pred, &truth, &classes, &scores, &labels}) *t = t->unsqueeze(0);
    const bool fits =
        truth.dim() == 3 && pred.dim() == 3 && pred.size(2) == truth.size(2) &&
        pred.size(0) == truth.size(0) && classes.sizes() == pred.sizes().slice(0, 2) &&
        scores.sizes() == classes.sizes() && labels.sizes() == truth.sizes().slice(0, 2);
    if (!fits)
      throw DataError("boxes " + list_text(pred.sizes()) + " with classes " +
                      list_text(classes.sizes()) + " and scores " + list_text(scores.sizes()) +
                      " do not fit boxes " + list_text(truth.sizes()) + " with classes " +
                      list_text(labels.sizes()));
    for (std::int64_t n = 0; n < truth.size(0); ++n) {
      const at::Tensor a = given_rows(pred[n]), b = given_rows(truth[n]);
      check(sample.name, p.pred_label_key, classes[n].index({a}));
      check(sample.name, p.label_key, labels[n].index({b}));
      refuse_nan(scores[n].index({a}), sample.name, p.score_key);
      for (std::int64_t c = 0; c < p.num_classes; ++c)
        add_class(sample.name, c, pred[n].index({a.logical_and(classes[n].eq(c))}),
                  scores[n].index({a.logical_and(classes[n].eq(c))}),
                  truth[n].index({b.logical_and(labels[n].eq(c))}));
    }
  }

  void check(const std::string& name, const std::string& key, const at::Tensor& classes) const {
    const at::Tensor bad = classes.lt(0).logical_or(classes.ge(p.num_classes)).nonzero();
    if (bad.numel() > 0)
      throw DataError(name + ": \"" + key + "\" has class " +
                      std::to_string(classes[bad[0][0]].item<std::int64_t>()) +
                      "; by num_classes there are 0 to " + std::to_string(p.num_classes - 1));
  }

  void add_class(const std::string& name, std::int64_t c, const at::Tensor& pred,
                 const at::Tensor& scores, const at::Tensor& truth) {
    std::vector<double> row(finds + overlaps_.size(), 0);
    row[box_class] = static_cast<double>(c);
    for (std::int64_t i = 0; i < truth.size(0); ++i) append(row, p.num_classes, 0, name);
    const at::Tensor order =
        std::get<1>(scores.sort(/*stable=*/true, 0, /*descending=*/true)).slice(0, 0, most());
    const at::Tensor iou = box_iou(pred.index({order}), truth).contiguous();
    const at::Tensor sorted = scores.index({order}).contiguous();
    const float* of = iou.const_data_ptr<float>();
    std::vector<std::vector<bool>> found(
        overlaps_.size(), std::vector<bool>(static_cast<std::size_t>(truth.size(0)), false));
    row[predicted] = 1;
    for (std::int64_t i = 0; i < order.size(0); ++i, of += truth.size(0)) {
      row[score] = sorted.const_data_ptr<float>()[i];
      row[place] = static_cast<double>(i);
      for (std::size_t t = 0; t < overlaps_.size(); ++t) {
        double best = std::min(overlaps_[t], 1 - 1e-10);
        auto which = found[t].end();
        for (auto g = found[t].begin(); g != found[t].end(); ++g)
          if (!*g && of[g - found[t].begin()] >= best) {
            best = of[g - found[t].begin()];
            which = g;
          }
        row[finds + t] = which != found[t].end() ? 1 : 0;
        if (which != found[t].end()) *which = true;
      }
      append(row, p.num_classes, 0, name);
    }
  }
  std::int64_t most() const { return p.max_detection.back(); }

  // At an overlap, of a class: the mean precision at recalls 0, 0.01, ..., 1, and the recall.
  struct Scores {
    double precision = NAN, recall = NAN;
  };
  Scores scores_of(std::int64_t c, std::size_t overlap, std::int64_t most) const {
    std::vector<const double*> rows;
    std::int64_t truths = 0;
    for (std::int64_t i = 0; i < count(); ++i) {
      const double* r = row(i);
      if (r[box_class] != static_cast<double>(c)) continue;
      if (r[predicted] == 0)
        ++truths;
      else if (r[place] < static_cast<double>(most))
        rows.push_back(r);
    }
    if (truths == 0) return {};
    std::stable_sort(rows.begin(), rows.end(),
                     [](const double* a, const double* b) { return a[score] > b[score]; });
    std::vector<double> precision;
    std::vector<float> recall;  // as MONAI has it: recalls of the list below are found or not
    double found = 0;
    for (const double* r : rows) {
      found += r[finds + overlap];
      precision.push_back(found / static_cast<double>(precision.size() + 1));
      recall.push_back(static_cast<float>(found) / static_cast<float>(truths));
    }
    for (std::size_t i = precision.size(); i-- > 1;)
      precision[i - 1] = std::max(precision[i - 1], precision[i]);
    double sum = 0;
    for (int k = 0; k <= 100; ++k) {
      const double wanted = k == 100 ? 1 : k * 0.01;
      const auto at = std::find_if(recall.begin(), recall.end(),
                                   [&](float r) { return static_cast<double>(r) >= wanted; });
      if (at != recall.end()) sum += precision[static_cast<std::size_t>(at - recall.begin())];
    }
    return {sum / 101, recall.empty() ? 0 : static_cast<double>(recall.back())};
  }

  void report(Flush& end) const override {
    std::vector<std::int64_t> all(static_cast<std::size_t>(p.num_classes));
    std::iota(all.begin(), all.end(), 0);
    report_of(end, "", all);
    if (p.per_class)
      for (const std::int64_t c : all) report_of(end, class_metric(c) + "_", {c});
  }

  void report_of(Flush& end, const std::string& prefix,
                 const std::vector<std::int64_t>& classes) const {
    const auto mean = [&](double Scores::*of, std::int64_t most, const auto& counts) {
      Mean mean;
      for (std::size_t t = 0; t < overlaps_.size(); ++t)
        if (counts(overlaps_[t]))
          for (const std::int64_t c : classes) mean.add(scores_of(c, t, most).*of);
      return mean.value();
    };
    end.metric(prefix + "mAP",
               mean(&Scores::precision, most(), [&](double t) { return range_.count(t) > 0; }));
    for (const std::int64_t n : p.max_detection)
      end.metric(prefix + "mAR_" + std::to_string(n),
                 mean(&Scores::recall, n, [](double) { return true; }));
    for (const double wanted : p.iou_list) {
      const std::string at = std::to_string(std::lround(wanted * 100));
      const auto there = [&](double t) { return t == wanted; };
      end.metric(prefix + "AP_" + at, mean(&Scores::precision, most(), there));
      end.metric(prefix + "AR_" + at, mean(&Scores::recall, most(), there));
    }
  }

  std::set<double> range_;
  std::vector<double> overlaps_;  // rising
};

const Register<CocoMetric> registered;

}  // namespace
}  // namespace sluice
