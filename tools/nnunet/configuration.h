// Patch, network and batch of one configuration, by how much memory the network's maps take.
#pragma once

#include "tools/nnunet/planner.h"

namespace sluice::nnunet {

struct Wanted {
  std::string name;
  Reals spacing, median;
  double voxels;  // of the data set at this spacing
};

// DataError where no patch is small enough, which says what would be enough.
Configuration plan_one(const Plans& plans, const Wanted& wanted);

inline Reals as_reals(const Ints& values) { return {values.begin(), values.end()}; }

}  // namespace sluice::nnunet
