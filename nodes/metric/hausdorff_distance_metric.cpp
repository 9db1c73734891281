// hausdorff_distance_metric: MONAI's HausdorffDistanceMetric.
#include "nodes/metric/surface.h"

namespace sluice {
namespace {

struct HausdorffParams : SurfaceParams {
  std::optional<double> percentile;
  bool directed = false;
};

struct HausdorffDistanceMetric final : SurfaceMetric<HausdorffParams> {
  static Spec spec() {
    Spec s("hausdorff_distance_metric",
           "The largest distance from a surface to the nearest voxel of the other, by class and "
           "case. Where one of both is empty it is infinite, and NaN with `percentile`, which no "
           "mean counts.");
    return add_surface_params<Params>(s)
        .param("percentile", &Params::percentile,
               "This percentile of the distances instead of the largest.")
        .range(0, 100)
        .param("directed", &Params::directed, "From prediction to label only.");
  }

 private:
  double measure(const at::Tensor& pred, const at::Tensor& truth,
                 const std::vector<double>& spacing, std::size_t) const override {
    const kernels::SurfaceDistances all = distances(pred, truth, spacing, !p.directed);
    const double there = farthest(all.there);
    if (p.directed) return there;
    const double back = farthest(all.back);
    return std::isnan(there) || std::isnan(back) ? NAN : std::max(there, back);
  }
  double farthest(const at::Tensor& all) const {
    if (all.numel() == 0) return NAN;
    if (!p.percentile || *p.percentile == 0) return all.max().item<double>();
    return at::quantile(all, *p.percentile / 100).item<double>();
  }
};

const Register<HausdorffDistanceMetric> registered;

}  // namespace
}  // namespace sluice
