// Losses of distances to surfaces, which the host takes.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/base/autograd.h"
#include "kernels/image/distance.h"
#include "nodes/loss/term_loss.h"

namespace sluice {

// distance(mask) of each member and class of x > 0.5, [N, C, ...] like x; 0 where all or nothing
// is.
template <class F>
at::Tensor each_distance(const at::Tensor& x, const F& distance) {
  const at::Tensor masks = x.detach().gt(0.5).to(at::kCPU);
  const at::Tensor flat = masks.flatten(0, 1);
  const at::Tensor all = at::zeros(flat.sizes(), x.scalar_type());
  for (std::int64_t i = 0; i < flat.size(0); ++i)
    if (const at::Tensor mask = flat[i]; mask.any().item<bool>() && !mask.all().item<bool>())
      all[i].copy_(distance(mask));
  return all.view(x.sizes()).to(x.device());
}

// Of each voxel to the nearest of the mask (its own side counts 0), in voxels.
inline at::Tensor voxels_to(const at::Tensor& mask) {
  return kernels::distance_to(mask, std::vector<double>(static_cast<std::size_t>(mask.dim()), 1.0));
}

// Of each voxel to the nearest voxel of the other side.
inline at::Tensor side_distances(const at::Tensor& x) {
  return each_distance(x, [](const at::Tensor& m) { return voxels_to(m).add_(voxels_to(~m)); });
}

// Outside the distance to the mask, inside less than 0: 1 - the distance to the outside.
inline at::Tensor signed_distances(const at::Tensor& x) {
  return each_distance(
      x, [](const at::Tensor& m) { return voxels_to(m).sub_(voxels_to(~m).sub_(1).mul_(m)); });
}

// Of sums over voxels by class, [C] or by member [N, C], whose gradient by each voxel this is.
inline MadeGradient by_class(const at::Tensor& gradient, const at::Tensor& sums) {
  at::DimVector as(static_cast<std::size_t>(gradient.dim()), 1);
  std::copy(sums.sizes().begin(), sums.sizes().end(), as.begin() + (2 - sums.dim()));
  return {gradient, as};
}

// Sums of w (prob - truth)^2, by member unless options.batch; w is overwritten.
inline at::Tensor weighed_squares(const Target& t, const at::Tensor& w) {
  const at::Tensor apart = t.prob() - t.truth(), error = apart.detach();
  w.mul_(error);
  const at::Tensor sums = t.sum(error.mul_(w));
  attach("WeighedSquaresBackward", {sums}, {apart}, by_class(w.mul_(2), sums));
  return sums;
}

// Sums of w prob by member, one member's and class's products at a time.
inline at::Tensor weighed_sums(const Target& t, const at::Tensor& w) {
  const at::Tensor prob = t.prob(), sums = at::empty({w.size(0), w.size(1)}, w.options());
  for (std::int64_t n = 0; n < w.size(0); ++n)
    for (std::int64_t c = 0; c < w.size(1); ++c)
      sums[n][c].copy_((prob.detach()[n][c] * w[n][c]).sum());
  attach("WeighedSumsBackward", {sums}, {prob}, by_class(w, sums));
  return sums;
}

inline at::Tensor hausdorff(const Target& t, double alpha) {
  const at::Tensor distances = side_distances(t.prob()).pow_(alpha);
  distances.add_(side_distances(t.truth()).pow_(alpha));
  const double voxels = static_cast<double>(distances[0][0].numel());
  return t.reduce(weighed_squares(t, distances) /
                  (t.options.batch ? voxels * static_cast<double>(t.pred.size(0)) : voxels));
}

struct HausdorffParams : TermLossParams {
  double alpha = 2;
  HausdorffParams() { target.include_background = false; }
};

// What the losses of Hausdorff's distance share.
struct HausdorffLoss : TermLoss<HausdorffParams> {
  static Spec made(std::string name, std::string does) {
    Spec s(std::move(name), std::move(does));
    return add_term_loss<Params>(s)
        .param("alpha", &Params::alpha, "Power of the distances.")
        .at_least(0);
  }
  bool on_host() const override { return true; }
};

}  // namespace sluice
