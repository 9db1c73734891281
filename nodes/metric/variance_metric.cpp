// variance_metric: MONAI's VarianceMetric, how unsure repeated predictions are.
#include <ATen/Functions.h>

#include <array>

#include "kernels/base/simd.h"
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
    at::Tensor x = field.detach().to(at::kCPU, at::kFloat);
    if (!p.include_background && x.size(1) > 1) x = x.slice(1, 1);
    x = x.flatten(2).flatten(0, 1).contiguous();
    const double sum = variances(x.const_data_ptr<float>(), x.size(0), x.size(1));
    return p.scalar_reduction == "sum" ? sum : sum / static_cast<double>(x.size(1));
  }

 private:
  // The sum over voxels of the variance of each of them over rows, x [rows, n].
  double variances(const float* x, std::int64_t rows, std::int64_t n) const {
    constexpr std::int64_t block = 512;  // voxels whose rows the cache holds
    const double least = p.threshold, share = 1 / static_cast<double>(rows);
    double sum = 0;
    simd([=, &sum]() SLUICE_INLINE {
      std::array<double, block> mean{}, squares{};
      for (std::int64_t first = 0; first < n; first += block) {
        const std::int64_t here = std::min(block, n - first);
        const auto each_value = [&](const auto& f) SLUICE_INLINE {
          for (std::int64_t r = 0; r < rows; ++r) {
            const float* row = x + r * n + first;
            for (std::int64_t i = 0; i < here; ++i)
              f(static_cast<std::size_t>(i), row[i] <= 0 ? least : static_cast<double>(row[i]));
          }
        };
        mean.fill(0), squares.fill(0);
        each_value([&](std::size_t i, double v) SLUICE_INLINE { mean[i] += v * share; });
        each_value([&](std::size_t i, double v)
                       SLUICE_INLINE { squares[i] += (v - mean[i]) * (v - mean[i]) * share; });
        for (const double of_one : squares) sum += of_one;
      }
    });
    return sum;
  }
};

const Register<VarianceMetric> registered;

}  // namespace
}  // namespace sluice
