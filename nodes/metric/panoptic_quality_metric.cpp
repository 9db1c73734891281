// panoptic_quality_metric: MONAI's PanopticQualityMetric (Kirillov et al. 2019).
#include <map>

#include "nodes/metric/case_metric.h"

namespace sluice {
namespace {

struct PanopticParams : CaseParams {
  std::int64_t num_classes = 1;
  std::string metric_name = "pq";
  double match_iou_threshold = 0.5, smooth_numerator = 1e-6;
  PanopticParams() { reduction = "mean_batch"; }
};

struct PanopticQuality final : CaseMetric<PanopticParams> {
  static Spec spec() {
    Spec s("panoptic_quality_metric",
           "How well instances are found and how well they overlap, by class: a pair of them "
           "counts as found where their intersection over union is above the threshold.");
    return add_case_params<Params>(s,
                                   "Prediction and label, [2, X, Y, Z] each: instance numbers, and "
                                   "classes from 1; 0 is "
                                   "background. Or batches of these.")
        .param("num_classes", &Params::num_classes, "Classes, without the background.")
        .required()
        .at_least(1)
        .param("metric_name", &Params::metric_name,
               "pq: panoptic quality; sq: segmentation quality; rq: recognition quality.")
        .choices({"pq", "sq", "rq"})
        .param("match_iou_threshold", &Params::match_iou_threshold,
               "Above it two instances are a pair; from 1/2 on each has one partner at most.")
        .range(0.5, 1)
        .param("smooth_numerator", &Params::smooth_numerator, "Added to the denominator.");
  }

 private:
  // Of a class: pairs, predictions without a partner, labels without one, the pairs' overlaps.
  std::size_t numbers() const override { return 4; }
  double metric_of(const double* n) const override {
    const double all = n[0] + n[1] / 2 + n[2] / 2 + p.smooth_numerator;
    if (p.metric_name == "rq") return n[0] / all;
    return n[3] / (p.metric_name == "sq" ? n[0] + p.smooth_numerator : all);
  }

  Row row(const Case& c) const override {
    const auto host = [&](const at::Tensor& t) {
      if (t.size(0) != 2) throw DataError(c10::str(t.sizes()) + " is not instances and classes");
      return t.to(at::kCPU, at::kLong).flatten(1).contiguous();
    };
    const at::Tensor pred = host(c.pred), truth = host(c.truth);
    Row row;
    row.first = 1;
    for (std::int64_t k = 1; k <= p.num_classes; ++k) {
      const auto found = of_class(pred, truth, k);
      row.values.insert(row.values.end(), found.begin(), found.end());
    }
    return row;
  }

  std::vector<double> of_class(const at::Tensor& pred, const at::Tensor& truth,
                               std::int64_t k) const {
    const std::int64_t voxels = pred.size(1);
    const std::int64_t *a = pred.const_data_ptr<std::int64_t>(),
                       *b = truth.const_data_ptr<std::int64_t>();
    std::map<std::int64_t, double> area_a, area_b;
    std::map<std::pair<std::int64_t, std::int64_t>, double> both;
    for (std::int64_t i = 0; i < voxels; ++i) {
      const std::int64_t x = a[voxels + i] == k ? a[i] : 0, y = b[voxels + i] == k ? b[i] : 0;
      if (x != 0) area_a[x] += 1;
      if (y != 0) area_b[y] += 1;
      if (x != 0 && y != 0) both[{x, y}] += 1;
    }
    double pairs = 0, overlap = 0;
    for (const auto& [ids, n] : both) {
      const double iou = n / (area_a[ids.first] + area_b[ids.second] - n);
      if (iou <= p.match_iou_threshold) continue;
      pairs += 1;
      overlap += iou;
    }
    return {pairs, static_cast<double>(area_a.size()) - pairs,
            static_cast<double>(area_b.size()) - pairs, overlap};
  }
};

const Register<PanopticQuality> registered;

}  // namespace
}  // namespace sluice
