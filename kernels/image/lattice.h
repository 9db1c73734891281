// Filtering with a Gaussian of features of many numbers, in time that does not grow with the
// window: by splatting values to the vertices of a permutohedral lattice, blurring along its axes
// and reading back (Adams, Baek, Davis 2010). MONAI's PHLFilter.
//
//   voxels ──splat──▶ vertices ──blur along d + 1 axes──▶ vertices ──slice──▶ voxels / that of ones
//
// Invariant: vertices are numbered by their first use in the voxels' order, and a vertex's sum is
// taken in that order: so results are the same bits for every number of threads and in every run.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace sluice {

class Lattice;  // of one image

// The lattices of a batch of features [B, F, ...], float32 or float64, each divided by its sigma.
// A DataError where a feature is not finite or too large. They are built once and may filter often.
class Lattices {
 public:
  Lattices(const at::Tensor& features, const std::vector<double>& sigmas);
  // image [B, C, ...] of the features' extents, float32 or float64; with a gradient to it. The
  // features count as constant.
  at::Tensor filter(const at::Tensor& image) const;

 private:
  std::shared_ptr<const std::vector<Lattice>> of_;
};

// Features of an image [B, C, ...] with D axes: where each voxel is, from 0, [B, D, ...].
at::Tensor coordinates(const at::Tensor& image);

}  // namespace sluice
