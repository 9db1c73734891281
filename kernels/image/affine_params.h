// The affine transforms that augmentation draws: rotation, shear, translation and scale about the
// volume's centre, in MONAI 1.6.1's conventions and order  R * Sh * T * S.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/random.h"
#include "kernels/image/affine.h"

namespace sluice {

struct Range {
  double low, high;
};

// MONAI's forms of a range: null, r, [r, ...] (each -r..r) and [[low, high], ...]; a null inside a
// list is left out. Throws an Error (usage) that names the parameter.
std::vector<Range> parse_ranges(const nlohmann::ordered_json& value, const std::string& name);

// Numbers missing at the end mean no rotation, shear, translation or scaling there.
struct AffineParams {
  std::vector<double> rotate;     // radians about x, y, z (intrinsic); one angle in 2-D
  std::vector<double> shear;      // 01 02 10 12 20 21, each a shear of its own; 01 10 in 2-D
  std::vector<double> translate;  // voxels
  std::vector<double> scale;      // factors; above 1 the picture shrinks, as the grid grows
};

struct AffineRanges {
  std::vector<Range> rotate, shear, translate, scale;  // scale: of what is added to 1
  AffineParams draw(Random& random) const;
};

// The matrix in voxels from the centre; `axes` is 2 or 3.
Affine centred_affine(const AffineParams& p, std::int64_t axes);

// Output -> source voxels for a matrix about the centres.
Affine about_centres(const Affine& centred, const Shape3& source, const Shape3& out);

}  // namespace sluice
