// surface_distance_metric: MONAI's SurfaceDistanceMetric.
#include "nodes/metric/surface.h"

namespace sluice {
namespace {

struct SurfaceDistanceParams : SurfaceParams {
  bool symmetric = false;
};

struct SurfaceDistanceMetric final : SurfaceMetric<SurfaceDistanceParams> {
  static Spec spec() {
    Spec s("surface_distance_metric",
           "The mean distance from the prediction's surface to the label's, by class and case. "
           "Infinite where one of both is empty.");
    return add_surface_params<Params>(s).param("symmetric", &Params::symmetric,
                                               "From the label's surface to the prediction's too.");
  }

 private:
  double measure(const at::Tensor& pred, const at::Tensor& truth,
                 const std::vector<double>& spacing, std::size_t) const override {
    const auto [there, back] = distances(pred, truth, spacing, p.symmetric);
    const at::Tensor all = p.symmetric ? at::cat({there, back}) : there;
    return all.numel() > 0 ? all.mean().item<double>() : NAN;
  }
};

const Register<SurfaceDistanceMetric> registered;

}  // namespace
}  // namespace sluice
