// One plane of a volume as an image of its own.
#pragma once

#include <cstdint>

#include "kernels/image/affine.h"

namespace sluice {

// The affine of the plane `at` across the spatial axis `axis`, 0 to 2: the plane's axes come first,
// the axis across it last.
Affine plane_affine(const Affine& volume, std::int64_t axis, std::int64_t at);

}  // namespace sluice
