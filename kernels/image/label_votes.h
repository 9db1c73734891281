// Labels at other places than their voxels: the label whose indicator, interpolated linearly, is
// largest there. nnU-Net resizes and turns its labels so.
//
// Invariant: of labels that come to the same the nearest voxel's wins where it is one of them, else
// the smallest. No indicator is ever made; a voxel among equals costs a look at its corners.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/image/affine.h"

namespace sluice {

// label [C, X, Y, Z] of any type -> the same type, [C, shape...]; outer faces stay. With `slices`
// that axis is left out, and along it the nearest slice counts.
at::Tensor label_resize(const at::Tensor& label, const Shape3& shape,
                        std::optional<int> slices = {});

// Voxel o of the result reads at to_source * o; all around the label has the value `outside`. What
// labels come to is compared in float16 of 1000ths, as batchgeneratorsv2 compares.
at::Tensor label_resample(const at::Tensor& label, const Affine& to_source, const Shape3& shape,
                          double outside);

}  // namespace sluice
