// What stands outside a volume where a pad needs it, by numpy's and torch's names.
//
//             reflect      symmetric    edge         wrap
//   a b c     c b|a b c|b  b a|a b c|c  a a|a b c|c  b c|a b c|a
// minimum, maximum: the least or the largest value along each axis, one axis after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kernels/image/separable.h"
#include "kernels/image/spatial.h"

namespace sluice {

enum class Filling : std::uint8_t { constant, edge, reflect, symmetric, wrap, minimum, maximum };

// "replicate" is torch's name for edge, "circular" for wrap.
inline const std::vector<std::string> filling_names{"constant", "edge",      "replicate",
                                                    "reflect",  "symmetric", "wrap",
                                                    "circular", "minimum",   "maximum"};
Filling parse_filling(const std::string& name);
// Whether what is filled in are voxels of the volume, by their places alone.
bool repeats_voxels(Filling filling);

// The box of the volume; what sticks out is filled (`value` for a constant). Any element type.
at::Tensor crop_pad(const at::Tensor& volume, const Box& box, Filling filling, double value);

// The same as a choice of voxels along each axis of a volume of shape `n`: with a constant, the box
// is inside.
Picks picks_of(const Box& box, const Shape3& n, Filling filling = Filling::edge);

}  // namespace sluice
