#include "kernels/image/spaced_grid.h"

#include <algorithm>

namespace sluice {
namespace {

// MONAI's AFFINE_TOL: millimetres of spacing, and entries of an affine, that count as equal.
constexpr double tolerance = 1e-3;

std::optional<double> bound(const std::vector<std::optional<double>>& given, std::size_t axis) {
  return axis < given.size() ? given[axis] : std::nullopt;
}

// Axes that the image lacks keep a spacing of 1.
Vec3 spacing_for(const VoxelSizes& p, const Vec3& have, std::int64_t axes) {
  Vec3 out = have;
  for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
    const double target = p.pixdim[std::min(d, p.pixdim.size() - 1)];
    const double low = std::min(bound(p.min_pixdim, d).value_or(target), target);
    const double high = std::max(bound(p.max_pixdim, d).value_or(target), target);
    const bool keep = low - tolerance <= have[d] && have[d] <= high + tolerance;
    out[d] = keep ? have[d] : target;
  }
  return out;
}

}  // namespace

SpacedGrid spaced_grid(const VoxelSizes& wanted, const Affine& source, const Shape3& shape,
                       std::int64_t axes) {
  SpacedGrid out;
  out.affine =
      zoom_affine(source, spacing_for(wanted, voxel_spacing(source), axes), wanted.diagonal);
  const Placement place = compute_shape_offset(shape, source, out.affine, wanted.scale_extent);
  for (int d = 0; d < 3; ++d) out.affine[4 * d + 3] = place.offset[d];
  out.shape = place.shape;
  out.to_source = solve(source, out.affine);
  const Affine none = scaling({1, 1, 1});
  out.same = place.shape == shape &&
             (near(source, out.affine, tolerance) || near(out.to_source, none, tolerance));
  return out;
}

}  // namespace sluice
