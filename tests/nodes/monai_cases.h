// Runs the cases that tests/monai/make_cases.py writes: a node (or, as "kernel.NAME", a function
// after one) on MONAI's inputs, held against MONAI's results.
//
// Invariant: what a case says is all that is compared: every field it names in every sample, its
// shape, its affine and its values (every `every`-th of them).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/state/drive.h"

namespace sluice::monai {

// How far a case is from MONAI; `wrong` says what does not fit at all, or is too far away.
struct Outcome {
  double error = 0;  // the largest difference over the largest value
  double ties = 0;   // share of the voxels of a nearest resampling that are another neighbour's
  std::string wrong;
};

// `folder` holds the .npy files that a case names.
Outcome run(const Json& one, const std::filesystem::path& folder);

// What the worst case of a type did.
struct Summary {
  int cases = 0;
  Outcome worst;
};
std::string table(const std::map<std::string, Summary>& by_type);

}  // namespace sluice::monai
