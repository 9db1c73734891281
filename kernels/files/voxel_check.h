// What a volume's values must be, checked in one pass over them.
//
// Invariant: a check that returns has looked at every voxel. `name` is the file's, for messages.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace sluice {

// Throws DataError with the number of NaN or infinite voxels and the index of the first.
void check_finite(const at::Tensor& volume, const std::string& name);

// Throws DataError with the first value that is no whole number from 0 to max_label, and how
// many there are.
void check_labels(const at::Tensor& volume, std::int64_t max_label, const std::string& name);

}  // namespace sluice
