// Classes from the colours of a few labelled voxels: a mixture of Gaussians for each class, split
// along its largest variance as in GrabCut (Rother, Kolmogorov, Blake 2004; MONAI's
// GaussianMixtureModel, here on the CPU). Not expectation maximisation, and no prior of classes.
//
// Invariant: sums are taken in blocks of voxels, in order, in double: the same bits for every
// number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice {

// Of one class and component: how many voxels it was learnt from, their mean [C], the inverse of
// their covariance as L^-1 with inverse = L^-T L^-1, [C (C + 1) / 2] by rows, and the factor of its
// density.
struct MixtureComponent {
  double count = 0, factor = 0;
  std::vector<double> mean, root;
};
using Mixture = std::vector<std::vector<MixtureComponent>>;  // of classes, of components

// What is learnt from are few voxels, so learning is the host's work also where they are on a
// device; applying is done where the image is. image [C, N], float32 or float64 (host); label [N],
// int64: -1 (no class) to classes - 1.
Mixture learn_mixture(const at::Tensor& image, const at::Tensor& label, std::int64_t classes,
                      std::int64_t size);
// [C, N] -> [K, N]: each class's share of the densities' sum; 0 where that is 0.
at::Tensor apply_mixture(const at::Tensor& image, const Mixture& mixture);

}  // namespace sluice
