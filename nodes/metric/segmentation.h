// Metrics of label maps: the classes that count, and how prediction and truth overlap in each.
#pragma once

#include "kernels/image/labels.h"
#include "nodes/metric/case_metric.h"

namespace sluice {

struct SegmentationParams : CaseParams {
  bool include_background = true, argmax = true;
  std::optional<std::int64_t> num_classes, ignore_index;
};

template <class Params>
Spec& add_segmentation_params(Spec& s) {
  return add_case_params<Params>(
             s,
             "Prediction and label. The prediction is [C, X, Y, Z] scores or [1, X, Y, Z] class "
             "indices, the label [1, X, Y, Z] class indices or one-hot; or batches of these.")
      // Of Params: a metric may have another default.
      .param("include_background", static_cast<bool Params::*>(&Params::include_background),
             "Count class 0 too.")
      .param("num_classes", &Params::num_classes,
             "Classes, background included; null: the prediction's channels, and for one "
             "channel a binary map, of which class 1 is measured.")
      .range(1, 256)
      .param("argmax", &Params::argmax,
             "Several channels are scores of exclusive classes. false: each channel is a mask "
             "of its own, in the label too.")
      .param("ignore_index", &Params::ignore_index,
             "Voxels of this label do not count; of a one-hot label those of this channel, or, "
             "where there is no such channel, those of no class. With argmax false the label may "
             "have this channel alone, behind those of the prediction.");
}

// Of those that say what an empty label comes to.
template <class Params>
Spec& add_ignore_empty(Spec& s) {
  return s.param("ignore_empty", &Params::ignore_empty,
                 "A class that the label lacks does not count; false: 1 if the prediction lacks it "
                 "too, else 0.");
}

// Voxels of one class.
struct ClassOverlap {
  double both, pred, truth;
};

template <class P>
class SegmentationMetric : public CaseMetric<P> {
 public:
  using CaseMetric<P>::p;
  // `ignores_class_alone`: of an ignore_index that is a class this class alone is left out, as if
  // no map had it, and its voxels count for the others. (A virtual function said so once; GCC 12
  // called the base's from by_class where a template between them overrides it.)
  explicit SegmentationMetric(bool ignores_class_alone = false)
      : ignores_class_alone_(ignores_class_alone) {}

 protected:
  // value(overlap, class) of each class that counts.
  template <class F>
  Row by_class(const Case& c, const F& value) const {
    const std::int64_t classes = p.num_classes.value_or(p.argmax ? c.pred.size(0) : 1);
    const bool binary = p.argmax && classes == 1;
    const kernels::Overlap o = overlap(c, binary ? 2 : classes);
    const std::int64_t left_out = leaves_class(c) ? *p.ignore_index : -1;
    Row row;
    row.first = binary || (!p.include_background && o.both.size() > 1) ? 1 : 0;
    for (auto k = static_cast<std::size_t>(row.first); k < o.both.size(); ++k) {
      const auto index = static_cast<std::int64_t>(k);
      ClassOverlap found{static_cast<double>(o.both[k]), static_cast<double>(o.pred[k]),
                         static_cast<double>(o.truth[k])};
      if (index == left_out) found = {0, 0, 0};
      row.values.push_back(value(found, index));
    }
    return row;
  }

 private:
  bool channels_fit(std::int64_t pred, std::int64_t truth) const final {
    return truth == pred || (p.argmax ? truth == 1 : marks_ignored(pred, truth));
  }
  // A label of one channel for each class becomes class indices.
  Case prepared(Case c) const final {
    if (p.ignore_index && !leaves_class(c)) c.counts = counted(c.truth);
    if (!p.argmax && marks_ignored(c.pred.size(0), c.truth.size(0)))
      c.truth = c.truth.narrow(0, 0, c.pred.size(0));
    if (!p.argmax || c.truth.size(0) == 1) return c;
    const auto classes = kernels::one_hot_classes(c.truth, c.counts);
    if (!classes)
      throw DataError("the label's channels are no exclusive classes: set argmax to false");
    c.truth = *classes;
    return c;
  }
  // Masks, and behind the last of the label's one of what is ignored.
  bool marks_ignored(std::int64_t pred, std::int64_t truth) const {
    return p.ignore_index == pred && truth == pred + 1;
  }
  bool leaves_class(const Case& c) const {
    const std::int64_t classes =
        p.argmax ? std::max<std::int64_t>(p.num_classes.value_or(c.pred.size(0)), 2)
                 : c.pred.size(0);
    return p.ignore_index && ignores_class_alone_ && *p.ignore_index >= 0 &&
           *p.ignore_index < classes;
  }
  // MONAI's create_ignore_mask.
  at::Tensor counted(const at::Tensor& truth) const {
    const std::int64_t index = *p.ignore_index;
    if (truth.size(0) == 1) return truth[0].ne(index);
    return index >= 0 && index < truth.size(0) ? truth[index].eq(0) : truth.ne(0).any(0);
  }
  kernels::Overlap overlap(const Case& c, std::int64_t classes) const {
    const auto kept = [&](const at::Tensor& t) {
      return c.counts.defined() ? t.masked_select(c.counts.to(t.device())).view({t.size(0), -1})
                                : t;
    };
    return p.argmax ? kernels::class_overlap(kept(c.pred), kept(c.truth), classes)
                    : kernels::channel_overlap(kept(c.pred), kept(c.truth));
  }

  bool ignores_class_alone_;
};

}  // namespace sluice
