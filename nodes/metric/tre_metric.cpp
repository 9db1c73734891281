// tre_metric: target registration error, the mean distance of landmarks.
#include "kernels/image/warp.h"
#include "nodes/metric/metric.h"

namespace sluice {
namespace {

struct TreParams : MetricParams {
  std::vector<double> spacing{1};
  TreParams() { keys = {"warped_points", "moving_points"}; }
};

struct TreMetric final : RowMetric {
  using Params = TreParams;
  Params p;

  static Spec spec() {
    return Spec("tre_metric",
                "Target registration error: each case's mean distance of landmarks from the "
                "truth's, and the mean over an epoch's cases. Metrics: mean.")
        .in("sample")
        .param("keys", &Params::keys,
               "Points and the truth's, [N, points, axes] or [points, axes]; rows of -1 of the "
               "truth are none.")
        .length(2, 2)
        .param("spacing", &Params::spacing, "A voxel's extents, one number or one an axis.")
        .above(0)
        .length(1, 3)
        .ordered()
        .merges()
        .any_device()
        .reports({"mean"})
        .takes("@keys", Form::any, 0);
  }

 protected:
  const MetricParams& common() const override { return p; }

 private:
  void add(const Sample& sample) override {
    at::Tensor points = sample.tensor(p.keys[0]).detach().to(at::kCPU, at::kDouble),
               truth = sample.tensor(p.keys[1]).to(at::kCPU, at::kDouble);
    if (points.dim() == 2) points = points.unsqueeze(0);
    if (truth.dim() == 2) truth = truth.unsqueeze(0);
    if (points.dim() != 3 || points.sizes() != truth.sizes() ||
        (p.spacing.size() != 1 && std::ssize(p.spacing) != points.size(2)))
      throw DataError("points " + c10::str(points.sizes()) + ", truth " + c10::str(truth.sizes()) +
                      " and " + std::to_string(p.spacing.size()) + " of spacing do not fit");
    const at::Tensor none = truth.eq(-1).flatten(1).all(1);
    const at::Tensor errors =
        target_registration_error(points, truth, p.spacing).masked_fill(none, NAN);
    for (std::int64_t n = 0; n < errors.size(0); ++n)
      append({errors[n].item<double>()}, 0, 0, sample.name);
  }
  void report(Flush& end) const override {
    Mean mean;
    for (std::int64_t i = 0; i < count(); ++i) mean.add(row(i)[0]);
    end.metric("mean", mean.value());
  }
};

const Register<TreMetric> registered;

}  // namespace
}  // namespace sluice
