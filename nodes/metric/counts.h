// Metrics of the counts of each class's voxels: right and wrong, positive and negative. The counts
// are reduced, not the metric, unless `compute_sample`.
#pragma once

#include "nodes/metric/measures.h"
#include "nodes/metric/segmentation.h"

namespace sluice {

template <class Params>
Spec& add_counts_params(Spec& s) {
  add_segmentation_params<Params>(s);
  for (ParamSpec& param : s.params)
    if (param.name == "spatial_dims") {
      param.min = 0;
      param.doc += " 0: of whole images, [C] or [N, C]; with argmax false several may be true.";
    }
  return s;
}

template <class P>
class CountsMetric : public SegmentationMetric<P> {
 public:
  using SegmentationMetric<P>::p;
  CountsMetric() : SegmentationMetric<P>(true) {}

 protected:
  virtual double measure(const Counts& c) const = 0;
  virtual bool by_sample() const { return false; }

 private:
  std::size_t numbers() const final { return by_sample() ? 1 : 4; }
  double metric_of(const double* n) const final {
    return by_sample() ? n[0] : measure({n[0], n[1], n[2], n[3]});
  }
  Row row(const Case& c) const final {
    const double voxels = c.counts.defined() ? c.counts.sum().template item<double>()
                                             : static_cast<double>(c.truth[0].numel());
    std::vector<double> values;
    Row row = this->by_class(c, [&](const ClassOverlap& o, std::int64_t) {
      const double fp = o.pred - o.both, fn = o.truth - o.both;
      const Counts n{o.both, fp, voxels - o.both - fp - fn, fn};
      if (by_sample())
        values.push_back(measure(n));
      else
        values.insert(values.end(), {n.tp, n.fp, n.tn, n.fn});
      return 0.0;
    });
    row.values = std::move(values);
    return row;
  }
};

}  // namespace sluice
