// MONAI's Spacing: the grid of the wanted voxel sizes over a volume. No tensors here.
#pragma once

#include <optional>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

struct VoxelSizes {
  std::vector<double> pixdim;  // mm, one an axis; the last counts for missing ones, 0 keeps an axis
  bool diagonal = false;       // the result's affine: undo rotations
  bool scale_extent = false;   // cover the voxels' outer faces, not only their centres
  // An axis between these keeps its voxel size; nothing: no such bound.
  std::vector<std::optional<double>> min_pixdim = {}, max_pixdim = {};
};

struct SpacedGrid {
  Shape3 shape;
  Affine affine, to_source;
  bool same = false;  // it is the volume's own, as far as MONAI's tolerance goes
};

// Of a volume whose first `axes` axes there are.
SpacedGrid spaced_grid(const VoxelSizes& wanted, const Affine& source, const Shape3& shape,
                       std::int64_t axes);

}  // namespace sluice
