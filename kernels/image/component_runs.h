// Connected components of a mask, found by the runs of its rows. No tensors here.
//
// Two voxels are neighbours where at most `connectivity` of their coordinates differ, each by 1:
// 1 for faces, 2 for edges too, 3 for corners too.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

struct Components {
  struct Run {
    std::int64_t row, begin, end;  // row x * Y + y, voxels begin .. end - 1 of it
    std::int32_t component;
  };
  std::vector<Run> runs;           // in memory order
  std::vector<std::int64_t> size;  // by component, numbered by their first voxels

  // By component: whether it is one of the `count` largest; of equal ones the later are.
  std::vector<bool> largest(std::int64_t count) const;
};

// mask: 0 and 1, of this shape.
Components find_components(const std::uint8_t* mask, const Shape3& shape, int connectivity);

}  // namespace sluice
