// `sluice data check`: everything that is wrong with a data set, at once.
//
// Invariant: every file is read once and whole; each finding names its file and, where it is about
// voxels, their number and the first one's index.
#pragma once

#include "kernels/lists/manifest.h"
#include "tools/runtime/data/data_set.h"

namespace sluice {

struct DataCheck {
  std::vector<Finding> findings;  // of one kind together, in the order of data_kinds()
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::size_t faults = 0, warnings = 0;
};

// `manifest` may be null.
DataCheck check_data(DataSet set, const Manifest* manifest);

}  // namespace sluice
