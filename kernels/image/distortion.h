// MONAI's GridDistortion of one axis: cells of equal size, each read at a pace of its own.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// Where each of the n voxels of an axis reads: cells of n / (steps.size() - 1) voxels, whose i-th
// spans its size times steps[i] in the source. Every cell ends where the next begins, both voxels
// included, as in MONAI. Voxels after the last cell (there are some on axes much shorter than the
// square of the number of cells) go on at the voxels' own pace; MONAI has them all read voxel 0.
std::vector<double> distorted_axis(std::int64_t n, const std::vector<double>& steps);

}  // namespace sluice
