// Distances to the nearest voxel of a set, and between the surfaces of two masks.
//
// Exact ones, axis after axis: along the first one a scan both ways, along each other one the least
// of what a voxel's line says plus the way there, outward from the voxel and no farther than a way
// alone is already too long. 16 lines go side by side, so that the time grows with the distances
// themselves and not with the image. On the CPU, on the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice::kernels {

// chessboard: the largest difference of coordinates; taxicab: their sum. In voxels, whatever the
// spacing.
enum class Distance : std::uint8_t { euclidean, chessboard, taxicab };

// Of every voxel to the nearest one that is set, float32 like `set`, which is bool with one to
// three axes; infinite where none is. `spacing`: by axis.
at::Tensor distance_to(const at::Tensor& set, const std::vector<double>& spacing,
                       Distance metric = Distance::euclidean);

// Of each surface voxel to the nearest of the other mask's, float32, in the image's order.
struct SurfaceDistances {
  at::Tensor there, back;  // from a to b, from b to a
};

// A mask's surface: its voxels that have a neighbour outside of it along an axis, or lie at the
// border. Masks are bool, of one to three axes. Where one surface is empty: infinite, for
// each voxel of the other one, there and back. `back` is left undefined where it is not asked for.
SurfaceDistances surface_distances(const at::Tensor& a, const at::Tensor& b,
                                   const std::vector<double>& spacing,
                                   Distance metric = Distance::euclidean, bool both = true);

}  // namespace sluice::kernels
