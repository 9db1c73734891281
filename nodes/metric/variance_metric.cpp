// variance_metric: MONAI's VarianceMetric, how unsure repeated predictions are.
#include <ATen/Functions.h>

#include "nodes/metric/number.h"

namespace sluice {
namespace {

struct VarianceParams : NumberParams {
  bool include_background = true;
  std::string scalar_reduction = "sum";
  double threshold = 0.0005;
  VarianceParams() { key = "pred"; }
};

struct VarianceMetric final : NumberMetric<VarianceParams> {
  static Spec spec() {
    Spec s("variance_metric",
           "The variance of each voxel over the repetitions and channels of a prediction, the mean "
           "over an epoch's samples. Metrics: mean.");
    return add_number_params<Params>(
               s, "Field with one sample's repeated predictions, [repetitions, C, ...].", Form::any)
        .param("include_background", &Params::include_background, "Count channel 0 too.")
        .param("scalar_reduction", &Params::scalar_reduction, "Over voxels.")
        .choices({"sum", "mean"})
        .param("threshold", &Params::threshold, "Instead of what is 0 or less.");
  }
  double value(const at::Tensor& field) const override {
    if (field.dim() < 2)
      throw DataError("\"" + p.key + "\" " + c10::str(field.sizes()) +
                      " is no [repetitions, C, ...]");
    at::Tensor x = field.detach().to(at::kCPU, at::kDouble);
    if (!p.include_background && x.size(1) > 1) x = x.slice(1, 1);
    x = x.masked_fill(x.le(0), p.threshold).flatten(0, 1);
    const at::Tensor variance = x.var(0, /*unbiased=*/false);
    return (p.scalar_reduction == "sum" ? variance.sum() : variance.mean()).item<double>();
  }
};

const Register<VarianceMetric> registered;

}  // namespace
}  // namespace sluice
