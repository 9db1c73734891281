// Displacements of an affine transform that a network's features say: MONAI's AffineHead.
#pragma once

#include <ATen/ATen.h>

#include "kernels/net/ops.h"

namespace sluice {

// Of features [N, C], in voxels on a grid of this size: NAME.fc, which begins as the identity.
inline Value affine_head(const Scope& s, const Value& features,
                         const std::vector<std::int64_t>& image_size) {
  const std::int64_t axes = std::ssize(image_size);
  const Value theta = linear(s / "fc", features, axes * (axes + 1),
                             {.init = Init::fill(0), .bias_init = Init::eye(axes)});
  const auto displacements = [size = image_size, axes](In t) {
    const at::Tensor theta = t[0].to(at::kFloat);  // half precision does not count far
    std::vector<at::Tensor> along;
    for (const auto n : size) along.push_back(at::arange(n, theta.options()));
    auto grid = at::meshgrid(along, "ij");
    const at::Tensor places = at::stack(grid).flatten(1);
    const at::Tensor one = at::ones({1, places.size(1)}, places.options());
    const at::Tensor moved =
        at::matmul(theta.view({-1, axes, axes + 1}), at::cat({places, one})) - places;
    std::vector<std::int64_t> all{-1, axes};
    all.insert(all.end(), size.begin(), size.end());
    return moved.reshape(all).to(t[0].scalar_type());
  };
  return theta.op(
      "affine_displacements", displacements,
      {.channels = axes, .axes = static_cast<int>(axes), .attributes = {{"size", image_size}}});
}

}  // namespace sluice
