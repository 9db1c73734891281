// Volumes of another number of voxels over the same extent: torch's interpolate(), in its
// arithmetic, so that results are its own to the last digits.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kernels/image/affine.h"
#include "kernels/image/separable.h"

namespace sluice {

enum class Resizing : std::uint8_t { nearest, nearest_exact, linear, cubic, area };

// MONAI's names; linear, bilinear and trilinear are one, and so are nearest's choices of it.
inline const std::vector<std::string> resizing_names{
    "area", "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"};
Resizing parse_resizing(const std::string& name);

// [C, X, Y, Z] -> [C, shape...]. The nearest modes keep the type, the others give float32; area
// averages the voxels that a new one covers, cubic is for flat volumes (Z = 1) only.
at::Tensor resize(const at::Tensor& volume, const Shape3& shape, Resizing mode,
                  bool align_corners = false, bool parallel = false);

// Of that result the voxels that `picks` names along each axis, the same to the bit: a part, or
// with voxels repeated around it. Where `into` is defined it is written there (into.h).
at::Tensor resize(const at::Tensor& volume, const Shape3& shape, Resizing mode, bool align_corners,
                  const Picks& picks, const at::Tensor& into = {});

// Output -> source voxels of resize().
Affine resize_affine(const Shape3& source, const Shape3& shape, bool align_corners = false);

}  // namespace sluice
