// Simulated clicks (MONAI's deepgrow): where in a mask a click lands, and how clicks are shown to a
// network.
//
// A click is a row of int32: the distance that it was drawn by, then its voxel. Any negative number
// in a row: no click. Guidance is int32 [2, rows, 1 + axes]: clicks on what belongs to the object,
// and clicks on what does not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

struct ClickSite {
  Shape3 voxel;
  std::int32_t distance;
};

// The voxels of a mask (bool or uint8, contiguous [X, Y, Z]) in memory order, each with its
// chessboard distance to the nearest voxel of the array that is not set; -1 for all where there is
// none (SciPy's distance_transform_cdt). The array's border is no such voxel.
std::vector<ClickSite> click_sites(const at::Tensor& mask);

// Sums of exp(distance) - 1 up to each site. Where that would overflow, of exp(distance - largest).
std::vector<double> click_sums(std::span<const ClickSite> sites);

// The site that `uniform` of [0, 1) falls on.
const ClickSite& drawn_click(std::span<const ClickSite> sites, double uniform);

// Ones at the clicks [rows, 1 + axes] in an array of `axes` extents, smoothed by a Gaussian, zeros
// outside, and scaled to 0..1; zeros where there is no click. A click outside lands on the border.
at::Tensor click_signal(const at::Tensor& clicks, at::IntArrayRef extents, double sigma);

// The first `channels` of an image [C, X, Y(, Z)] and a channel for each list of clicks
// [lists, rows, 1 + axes], float32. Throws DataError where the clicks have other axes.
at::Tensor with_click_signals(const at::Tensor& image, const at::Tensor& clicks,
                              std::int64_t channels, double sigma);

}  // namespace sluice
