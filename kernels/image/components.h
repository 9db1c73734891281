// Connected components of a mask and of a map of values, as tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/image/component_runs.h"

namespace sluice {

// mask: bool or uint8 of 0 and 1, contiguous [X, Y, Z].
Components find_components(const at::Tensor& mask, int connectivity);

// The connected components of equal values of a map [X, Y, Z], but 0, numbered from 1 by their
// first voxels in memory: int32. At most 2^31 - 1 voxels.
at::Tensor numbered_components(const at::Tensor& map, int connectivity);

// The mask without all but its `count` largest components; of equal ones the later stay.
at::Tensor largest_components(const at::Tensor& mask, int connectivity, std::int64_t count);

// The mask and what it encloses: everything that cannot be reached from outside the volume. `axes`
// 2: the volume is one plane, open at its rim only.
at::Tensor with_filled_holes(const at::Tensor& mask, int connectivity, std::int64_t axes);

// The labels of a map [C, X, Y, Z] to work on: those given, else all that occur but 0, in rising
// order; of one-hot maps the channels. Whole where the map is; of those given, what its type holds.
std::vector<c10::Scalar> labels_in(const at::Tensor& volume, bool one_hot,
                                   const std::optional<std::vector<std::int64_t>>& given);
// Where a label is, uint8 [X, Y, Z]; of a one-hot map its channel.
at::Tensor mask_of(const at::Tensor& volume, bool one_hot, const c10::Scalar& label);

}  // namespace sluice
