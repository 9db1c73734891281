// Metrics of surfaces: how far a mask's surface lies from another's.
#pragma once

#include <ATen/Functions.h>
#include "kernels/image/distance.h"

#include "nodes/metric/segmentation.h"

namespace sluice {

struct SurfaceParams : SegmentationParams {
  std::optional<std::vector<double>> spacing;
  bool affine_spacing = false;
  std::string distance_metric = "euclidean";
  SurfaceParams() { include_background = false; }
};

template <class Params>
Spec& add_surface_params(Spec& s) {
  return add_segmentation_params<Params>(s)
      .param("spacing", &Params::spacing, "Millimetres a voxel, by axis, or one for all; null: 1.")
      .param("affine_spacing", &Params::affine_spacing, "Spacing as the label's affine says.")
      .exclusive("spacing", "affine_spacing")
      .param("distance_metric", &Params::distance_metric,
             "Euclidean, or whole voxels without spacing: chessboard: the largest difference of "
             "coordinates; taxicab: their sum.")
      .choices({"euclidean", "chessboard", "taxicab"});
}

template <class P>
class SurfaceMetric : public SegmentationMetric<P> {
 public:
  using SegmentationMetric<P>::p;

 protected:
  // `place`: which of the classes that count it is.
  virtual double measure(const at::Tensor& pred, const at::Tensor& truth,
                         const std::vector<double>& spacing, std::size_t place) const = 0;
  // Whether the parameters are for so many classes.
  virtual void check(std::size_t classes) const { (void)classes; }

  Row row(const Case& c) const final {
    const bool scores = p.argmax && c.pred.size(0) > 1;
    const at::Tensor classes = scores ? kernels::argmax_channels(c.pred) : c.pred;
    const auto mask = [&](const at::Tensor& t, std::int64_t k) {
      const at::Tensor is = p.argmax ? kernels::class_mask(t[0], k) : kernels::set_mask(t[k]);
      return c.counts.defined() ? is.logical_and(c.counts.to(is.device())) : is;
    };
    std::size_t next = 0;
    Row row = this->by_class(c, [&](const ClassOverlap&, std::int64_t k) {
      const std::size_t place = next++;
      if (p.ignore_index == k) return static_cast<double>(NAN);
      return measure(mask(classes, k), mask(c.truth, k), spacing(c), place);
    });
    check(row.values.size());
    return row;
  }

  kernels::SurfaceDistances distances(const at::Tensor& pred, const at::Tensor& truth,
                                      const std::vector<double>& spacing, bool both) const {
    const auto metric = p.distance_metric == "taxicab"      ? kernels::Distance::taxicab
                        : p.distance_metric == "chessboard" ? kernels::Distance::chessboard
                                                            : kernels::Distance::euclidean;
    return kernels::surface_distances(pred, truth, spacing, metric, both);
  }

 private:
  std::vector<double> spacing(const Case& c) const {
    const auto axes = static_cast<std::size_t>(p.spatial_dims);
    std::vector<double> mm = p.spacing.value_or(std::vector<double>{1.0});
    if (mm.size() == 1) mm.assign(axes, mm[0]);
    if (mm.size() != axes)
      throw Error(Exit::usage, "spacing has " + std::to_string(mm.size()) + " values for " +
                                   std::to_string(axes) + " spatial axes");
    for (std::size_t k = 0; k < axes && p.affine_spacing; ++k) {
      const auto& a = c.geometry->affine;
      mm[k] = std::hypot(a[k], a[4 + k], a[8 + k]);
    }
    return mm;
  }
};

}  // namespace sluice
