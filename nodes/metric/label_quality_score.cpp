// label_quality_score: MONAI's LabelQualityScore.
#include <ATen/Functions.h>

#include "nodes/metric/regression.h"

namespace sluice {
namespace {

struct LabelQualityParams : CaseParams {
  bool include_background = true;
  std::string scalar_reduction = "sum";
};

struct LabelQualityScore final : RegressionMetric<LabelQualityParams> {
  static Spec spec() {
    Spec s(
        "label_quality_score",
        "How far a prediction is from a label of its shape: the absolute difference of each case.");
    return add_value_params<Params>(s)
        .param("include_background", &Params::include_background, "Count channel 0 too.")
        .param("scalar_reduction", &Params::scalar_reduction, "Over channels and voxels.")
        .choices({"sum", "mean"});
  }
  double value(const at::Tensor& pred, const at::Tensor& truth) const override {
    const std::int64_t first = p.include_background || pred.size(0) == 1 ? 0 : 1;
    const std::int64_t n = pred.size(0) - first;
    const double mean =
        mean_over(pred.narrow(0, first, n), truth.narrow(0, first, n), absolute_difference);
    const auto voxels = static_cast<double>(pred.numel() / pred.size(0) * n);
    return p.scalar_reduction == "sum" ? mean * voxels : mean;
  }
};

const Register<LabelQualityScore> registered;

}  // namespace
}  // namespace sluice
