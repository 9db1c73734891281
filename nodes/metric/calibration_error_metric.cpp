// calibration_error_metric: MONAI's CalibrationErrorMetric.
#include <ATen/ATen.h>

#include "nodes/metric/case_metric.h"

namespace sluice {
namespace {

struct CalibrationParams : CaseParams {
  std::int64_t num_bins = 20;
  bool include_background = true, right = false;
  std::string calibration_reduction = "expected";
};

struct CalibrationError final : CaseMetric<CalibrationParams> {
  static Spec spec() {
    Spec s("calibration_error_metric",
           "How far probabilities are from the share of voxels that are of the class, by class and "
           "case.");
    return add_case_params<Params>(
               s, "Probabilities and truth of 0 and 1, [C, X, Y, Z] each, or batches of these.")
        .param("num_bins", &Params::num_bins, "Bins of probability from 0 to 1.")
        .at_least(1)
        .param("include_background", &Params::include_background, "Count class 0 too.")
        .param(
            "calibration_reduction", &Params::calibration_reduction,
            "Over bins that have voxels: expected: by their number; average: each alike; maximum.")
        .choices({"expected", "average", "maximum"})
        .param("right", &Params::right, "A bin has its lower border, not its upper one.");
  }
  Row row(const Case& c) const override {
    refuse_nan(c.pred, c.name, p.keys[0]);
    Row row;
    row.first = p.include_background || c.pred.size(0) == 1 ? 0 : 1;
    for (std::int64_t k = row.first; k < c.pred.size(0); ++k)
      row.values.push_back(error(channel(c.pred, k), channel(c.truth, k)));
    return row;
  }

 private:
  static at::Tensor channel(const at::Tensor& t, std::int64_t k) {
    return t[k].to(at::kCPU, at::kFloat).contiguous();
  }

  struct Bin {
    double voxels = 0, pred = 0, truth = 0;
  };

  // float32 of [voxels] each
  double error(const at::Tensor& pred, const at::Tensor& truth) const {
    double all = 0, far = 0, sum = 0, most = 0, used = 0;
    for (const Bin& b :
         bins(pred.const_data_ptr<float>(), truth.const_data_ptr<float>(), pred.numel())) {
      if (b.voxels == 0) continue;
      const double apart = std::abs(b.pred - b.truth), share = apart / b.voxels;
      all += b.voxels, far += apart, sum += share, used += 1;
      most = std::max(most, share);
    }
    if (used == 0) return NAN;
    if (p.calibration_reduction == "expected") return far / all;
    return p.calibration_reduction == "maximum" ? most : sum / used;
  }

  std::vector<Bin> bins(const float* pred, const float* truth, std::int64_t n) const {
    const auto last = p.num_bins - 1;
    const double top = 1 + static_cast<double>(std::numeric_limits<float>::epsilon());
    const at::Tensor line = at::linspace(0, top, p.num_bins + 1, at::kFloat);
    const float* border = line.const_data_ptr<float>();  // bin k from border[k] to border[k + 1]
    const auto wide = static_cast<float>(static_cast<double>(p.num_bins) / top);
    std::vector<Bin> found(static_cast<std::size_t>(p.num_bins));
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = pred[i];
      std::int64_t k = x <= 0  ? 0
                       : x < 1 ? std::min(last, static_cast<std::int64_t>(x * wide))
                               : last;
      // What lies at a border, or next to it, is rounded to either side.
      const auto above = [&](std::int64_t at) {
        return p.right ? x >= border[at] : x > border[at];
      };
      if (k > 0 && !above(k) && !std::isnan(x)) --k;
      if (k < last && above(k + 1)) ++k;
      Bin& bin = found[static_cast<std::size_t>(k)];
      bin.voxels += 1;
      bin.pred += static_cast<double>(x);
      bin.truth += static_cast<double>(truth[i]);
    }
    return found;
  }
};

const Register<CalibrationError> registered;

}  // namespace
}  // namespace sluice
