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
    Row row;
    row.first = p.include_background || c.pred.size(0) == 1 ? 0 : 1;
    for (std::int64_t k = row.first; k < c.pred.size(0); ++k)
      row.values.push_back(error(c.pred[k].to(at::kCPU, at::kFloat).flatten(),
                                 c.truth[k].to(at::kCPU, at::kDouble).flatten()));
    return row;
  }

 private:
  double error(const at::Tensor& pred, const at::Tensor& truth) const {
    const double top = 1 + static_cast<double>(std::numeric_limits<float>::epsilon());
    const at::Tensor borders = at::linspace(0, top, p.num_bins + 1, at::kFloat).slice(0, 1);
    const at::Tensor bin = at::bucketize(pred, borders, false, p.right).clamp_max(p.num_bins - 1);
    const auto sum = [&](const at::Tensor& x) {
      return at::zeros({p.num_bins}, at::kDouble).scatter_add(0, bin, x);
    };
    const at::Tensor voxels = sum(at::ones_like(truth)), used = voxels.gt(0);
    if (!used.any().item<bool>()) return NAN;
    const at::Tensor far = (sum(pred.to(at::kDouble)) - sum(truth)).abs();
    if (p.calibration_reduction == "expected") return (far.sum() / voxels.sum()).item<double>();
    const at::Tensor share = (far / voxels).masked_select(used);
    return (p.calibration_reduction == "maximum" ? share.max() : share.mean()).item<double>();
  }
};

const Register<CalibrationError> registered;

}  // namespace
}  // namespace sluice
