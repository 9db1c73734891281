// jacobian_metric: how displacement fields stretch and fold space (as Learn2Reg reports it).
#include <ATen/Functions.h>

#include "kernels/image/warp.h"
#include "nodes/metric/metric.h"

namespace sluice {
namespace {

struct JacobianParams : MetricParams {
  std::string key = "ddf";
};

struct JacobianMetric final : RowMetric {
  using Params = JacobianParams;
  Params p;

  static Spec spec() {
    return Spec("jacobian_metric",
                "The determinant of index + ddf, by central differences, over the inner voxels of "
                "each field. folding: the share that is 0 or less; std_log: the standard deviation "
                "of its logarithm, at least 1e-9. Metrics: their means over an epoch's fields.")
        .in("sample")
        .param("key", &Params::key, "Displacements in voxels, [N, axes, ...] or [axes, ...].")
        .ordered()
        .merges()
        .any_device()
        .reports({"folding", "std_log"})
        .takes("@key", Form::any, 2, 3);
  }

 protected:
  const MetricParams& common() const override { return p; }

 private:
  void add(const Sample& sample) override {
    at::Tensor field = sample.tensor(p.key).detach().to(at::kCPU, at::kDouble);
    if (is_single_field(field)) field = field.unsqueeze(0);
    bool fits = field.dim() >= 4 && field.dim() <= 5 && field.size(1) == field.dim() - 2;
    for (std::int64_t a = 2; a < field.dim(); ++a) fits = fits && field.size(a) > 2;
    if (!fits)
      throw DataError("\"" + p.key + "\" " + c10::str(sample.tensor(p.key).sizes()) +
                      " is no field of displacements [N, axes, ...] of at least 3 voxels an axis");
    if (!field.isfinite().all().item<bool>())
      throw DataError("\"" + p.key + "\" has displacements that are NaN or infinite");
    for (const at::Tensor& member : field.unbind()) {
      const at::Tensor j = determinants(member);
      append({j.le(0).to(at::kDouble).mean().item<double>(),
              j.clamp_min(1e-9).log().std(/*unbiased=*/false).item<double>()},
             0, 0, sample.name);
    }
  }
  // Of [axes, ...], over its inner voxels.
  static at::Tensor determinants(const at::Tensor& field) {
    const std::int64_t axes = field.size(0);
    const auto inner = [&](at::Tensor x, std::int64_t along, std::int64_t by) {
      for (std::int64_t a = 0; a < axes; ++a)
        x = x.narrow(a, 1 + (a == along ? by : 0), x.size(a) - 2);
      return x;
    };
    // d(component c) / d(axis a)
    const auto slope = [&](std::int64_t c, std::int64_t a) {
      const at::Tensor u = field.select(0, c);
      return (inner(u, a, 1) - inner(u, a, -1)) / 2 + (a == c ? 1 : 0);
    };
    const auto minor = [&](std::int64_t a, std::int64_t b) {  // of components 1 and 2
      return slope(1, a) * slope(2, b) - slope(1, b) * slope(2, a);
    };
    if (axes == 2) return slope(0, 0) * slope(1, 1) - slope(0, 1) * slope(1, 0);
    return slope(0, 0) * minor(1, 2) - slope(0, 1) * minor(0, 2) + slope(0, 2) * minor(0, 1);
  }
  void report(Flush& end) const override {
    const char* names[] = {"folding", "std_log"};
    for (int m = 0; m < 2; ++m) {
      Mean mean;
      for (std::int64_t i = 0; i < count(); ++i) mean.add(row(i)[m]);
      end.metric(names[m], mean.value());
    }
  }
};

const Register<JacobianMetric> registered;

}  // namespace
}  // namespace sluice
