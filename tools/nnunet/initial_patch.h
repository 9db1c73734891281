// How much is cut out of a volume so that a rotated and shrunk patch finds voxels everywhere.
#pragma once

#include "tools/nnunet/topology.h"

namespace sluice::nnunet {

// What nnU-Net does with patches of these extents before training.
struct Spatial {
  Ints initial;        // extents of what is cut out
  double rotation;     // radians, either way
  bool dummy_2d;       // the first axis is thick: rotations in the plane of the others
  bool turned_freely;  // half a turn, of a patch that is about square
};
// The extents under a rotation by the largest angle (at most 90 degrees) about each axis alone, the
// largest of them, divided by 0.85.
Spatial spatial_of(const Ints& patch);

}  // namespace sluice::nnunet
