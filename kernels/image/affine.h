// Voxel geometry in double: 4x4 affines, spacings, orientations. No tensors here.
//
// Invariant: an affine is row-major and maps a column (i, j, k, 1); voxel affines map to RAS
// millimetres. `output -> source` matrices say where an output voxel is read, so the affine of a
// transformed volume is always  old affine * (output -> source).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

using Affine = std::array<double, 16>;
using Vec3 = std::array<double, 3>;
using Shape3 = std::array<std::int64_t, 3>;

Affine multiply(const Affine& a, const Affine& b);
// a^-1 * b. Throws DataError with the matrix where it has no inverse.
Affine solve(const Affine& a, const Affine& b);
Affine inverse(const Affine& a);
Vec3 map_point(const Affine& a, const Vec3& point);
Affine translation(const Vec3& shift);
Affine scaling(const Vec3& factors);
Affine centre_of(const Shape3& shape);  // translation by (n - 1) / 2

bool near(const Affine& a, const Affine& b, double tolerance);
std::string text(const Affine& a);

// Voxel sizes: the column norms; an empty column counts as 1.
Vec3 voxel_spacing(const Affine& a);

// The affine with voxel sizes `spacing` and the same rotation, without shear and translation;
// with `diagonal` the plain diagonal one. A spacing of 0 or less keeps the old one.
Affine zoom_affine(const Affine& a, Vec3 spacing, bool diagonal);

// Shape and world offset of the grid `to` (its translation is ignored) that covers the voxel
// centres of `shape` under `from`; with `extent` the voxels' outer faces instead.
struct Placement {
  Shape3 shape;
  Vec3 offset;
};
Placement compute_shape_offset(const Shape3& shape, const Affine& from, const Affine& to,
                               bool extent = false);

// For each voxel axis: the world axis (0 = left-right, ...) it runs along, and which way.
struct Orientation {
  std::array<int, 3> axis{0, 1, 2};
  std::array<int, 3> sign{1, 1, 1};
  bool operator==(const Orientation&) const = default;
};
Orientation orientation_of(const Affine& a);
// "RAS": a letter a voxel axis, the world direction in which it grows.
Orientation parse_axcodes(std::string_view codes);
std::string axcodes(const Orientation& o);

// A flip and permutation of axes: output axis o reads source axis from[o], backwards if flip[o].
struct Reorder {
  std::array<int, 3> from{0, 1, 2};
  std::array<bool, 3> flip{false, false, false};
  bool operator==(const Reorder&) const = default;
};
Reorder reorder_between(const Orientation& have, const Orientation& want);
Shape3 reorder_shape(const Reorder& r, const Shape3& source);
Affine reorder_affine(const Reorder& r, const Shape3& source);  // output -> source

}  // namespace sluice
