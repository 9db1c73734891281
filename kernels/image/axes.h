// Geometry of images of fewer than three axes, and directions by any letters.
#pragma once

#include <string>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

// MONAI's to_affine_nd: the block of the first `axes` axes and their shift; the others as in the
// identity.
Affine of_axes(const Affine& a, std::int64_t axes);

// The names of the two directions of each world axis, the negative one first.
using AxisLabels = std::vector<std::vector<std::string>>;
inline const AxisLabels ras_labels{{"L", "R"}, {"P", "A"}, {"I", "S"}};

// The first `axes` of `codes`, a name a voxel axis, as nibabel's axcodes2ornt. A DataError names
// one that is no direction of so many axes, or one that stands twice.
Orientation parse_axcodes(const std::vector<std::string>& codes, std::int64_t axes,
                          const AxisLabels& labels = ras_labels);

}  // namespace sluice
