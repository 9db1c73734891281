// Distances between the surfaces of two masks.
//
// Invariant: exact distances in float64, Euclidean ones, by squared distances along one axis after
// the other (Felzenszwalb and Huttenlocher 2012); on the CPU, on the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice::kernels {

// The mask's voxels that have a neighbour outside of it along an axis, or lie at the border: bool.
at::Tensor mask_edges(const at::Tensor& mask);

// chessboard: the largest difference of coordinates; taxicab: their sum. In voxels, whatever the
// spacing.
enum class Distance : std::uint8_t { euclidean, chessboard, taxicab };

// Of every voxel to the nearest one that is set, float64; infinite where none is. `spacing`: by
// axis.
at::Tensor distance_to(const at::Tensor& set, const std::vector<double>& spacing,
                       Distance metric = Distance::euclidean);

// Of each edge voxel of `from` to the nearest edge voxel of `to`, [edge voxels] float32, for masks
// [X, Y(, Z)]. Where one of both is empty: infinite, for each edge voxel of the other. Only the box
// around both is looked at.
at::Tensor surface_distances(const at::Tensor& from, const at::Tensor& to,
                             const std::vector<double>& spacing,
                             Distance metric = Distance::euclidean);

}  // namespace sluice::kernels
