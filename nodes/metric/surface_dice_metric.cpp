// surface_dice_metric: MONAI's SurfaceDiceMetric, the normalised surface distance.
#include "engine/base/counted.h"
#include "nodes/metric/surface.h"

namespace sluice {
namespace {

struct SurfaceDiceParams : SurfaceParams {
  std::vector<double> class_thresholds;
};

struct SurfaceDiceMetric final : SurfaceMetric<SurfaceDiceParams> {
  static Spec spec() {
    Spec s("surface_dice_metric",
           "The share of both surfaces that lies within a distance of the other, by class and "
           "case. Not defined where both are empty.");
    return add_surface_params<Params>(s)
        .param("class_thresholds", &Params::class_thresholds,
               "The distance, of each class that counts.")
        .at_least(0)
        .required();
  }

 private:
  void check(std::size_t classes) const override {
    if (p.class_thresholds.size() != classes)
      throw Error(
          Exit::usage,
          "class_thresholds has " + sluice::counted(std::ssize(p.class_thresholds), "value") +
              ", but " +
              sluice::counted(static_cast<std::int64_t>(classes), "class counts", "classes count") +
              (p.include_background ? "" : " without the background"));
  }
  double measure(const at::Tensor& pred, const at::Tensor& truth,
                 const std::vector<double>& spacing, std::size_t place) const override {
    if (place >= p.class_thresholds.size()) return NAN;  // and check() refuses
    const auto [there, back] = distances(pred, truth, spacing, true);
    const at::Tensor all = at::cat({there, back});
    if (all.numel() == 0) return NAN;
    return all.le(p.class_thresholds[place]).to(at::kDouble).mean().item<double>();
  }
};

const Register<SurfaceDiceMetric> registered;

}  // namespace
}  // namespace sluice
