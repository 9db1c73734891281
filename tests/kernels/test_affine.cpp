// 4x4 geometry: inverses, spacings, placements and orientations. Expected numbers are nibabel's
// and MONAI 1.6.1's.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.h"
#include "kernels/image/affine.h"
#include "kernels/image/affine_params.h"

using namespace sluice;

namespace {

const Affine oblique = multiply(
    translation({-20, 30, 10}),
    multiply(centred_affine({{0.2, -0.3, 0.15}, {}, {}, {}}, 3), scaling({0.9, -1.3, 2.1})));

Placement place(const Shape3& shape, const Vec3& from, const Vec3& to) {
  const Affine source = scaling(from);
  return compute_shape_offset(shape, source, zoom_affine(source, to, false));
}

}  // namespace

TEST_CASE("an affine times its inverse is the identity") {
  const Affine one = multiply(oblique, inverse(oblique));
  for (int i = 0; i < 16; ++i) CHECK(one[i] == doctest::Approx(i % 5 == 0).epsilon(1e-12));
}

TEST_CASE("a singular affine is a data error, however small its numbers") {
  CHECK_THROWS_AS(inverse(scaling({1, 0, 1})), DataError);
  CHECK_THROWS_AS(orientation_of(scaling({1, 0, 1})), DataError);
  CHECK_NOTHROW(inverse(scaling({1e-6, 1e-6, 1e-6})));
}

TEST_CASE("voxel spacing is the column norms, and 1 for an empty column") {
  const Vec3 s = voxel_spacing(oblique);
  CHECK(s[0] == doctest::Approx(0.9));
  CHECK(s[1] == doctest::Approx(1.3));
  CHECK(s[2] == doctest::Approx(2.1));
  CHECK(voxel_spacing(scaling({0, 2, 2}))[0] == 1);
}

TEST_CASE("zooming keeps the rotation, drops shear, and keeps an axis asked to be 0") {
  const Affine zoomed = zoom_affine(oblique, {1, 0, 3}, false);
  const Vec3 s = voxel_spacing(zoomed);
  CHECK(s[0] == doctest::Approx(1));
  CHECK(s[1] == doctest::Approx(1.3));
  CHECK(s[2] == doctest::Approx(3));
  for (int r = 0; r < 3; ++r)
    CHECK(zoomed[4 * r] / s[0] == doctest::Approx(oblique[4 * r] / 0.9).epsilon(1e-10));
  CHECK(near(zoom_affine(oblique, {1, 2, 3}, true), scaling({1, 2, 3}), 0));
}

TEST_CASE("shapes at new spacings are MONAI's, halves rounded to even") {
  CHECK(place({512, 512, 34}, {-.8, -.8, 5}, {1.5, 1.5, 2}).shape == Shape3{274, 274, 84});
  CHECK(place({512, 512, 34}, {-.8, -.8, 5}, {1, 1, 1}).shape == Shape3{410, 410, 166});
  CHECK(place({512, 512, 151}, {-.8, -.8, 5}, {1.5, 1.5, 2}).shape == Shape3{274, 274, 376});
}

TEST_CASE("the offset is the corner that is least on every axis, as long as there is one") {
  const Placement p = place({512, 512, 34}, {-.8, -.8, 5}, {1.5, 1.5, 2});
  CHECK(p.offset == Vec3{0, 0, 0});
  const Affine diagonal = scaling({1.5, 1.5, 2});
  const Placement flipped = compute_shape_offset({512, 512, 34}, scaling({-.8, -.8, 5}), diagonal);
  CHECK(flipped.offset[0] == doctest::Approx(-.8 * 511));
}

TEST_CASE("orientations are nibabel's, also for oblique and sheared affines") {
  CHECK(axcodes(orientation_of(scaling({1, 1, 1}))) == "RAS");
  CHECK(axcodes(orientation_of(scaling({-1, -2, 3}))) == "LPS");
  CHECK(axcodes(orientation_of(oblique)) == "RPS");
  const Affine psr{0, 0, 2, 0, -1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1};
  CHECK(axcodes(orientation_of(psr)) == "PSR");
  // Columns that lean the same way: the clearest chooses first (nibabel: io_orientation).
  const Affine leaning{0.8, 0.9, 0, 0, 0.1, 0.6, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  CHECK(axcodes(orientation_of(leaning)) == "RAS");
  const Affine skewed{0.5, 0.9, 0.2, 0, -0.6, 0.7, 0.3, 0, 0.3, -0.2, -1, 0, 0, 0, 0, 1};
  CHECK(axcodes(orientation_of(skewed)) == "PRI");
}

TEST_CASE("axis codes are read back as written, and nonsense is refused") {
  for (const char* codes : {"RAS", "LPS", "PIR", "SAL", "ILA"})
    CHECK(axcodes(parse_axcodes(codes)) == codes);
  for (const char* codes : {"RA", "RAR", "RLS", "ras", "RASX", ""})
    CHECK_THROWS_AS(parse_axcodes(codes), DataError);
}

TEST_CASE("a reorder's affine leaves every voxel where it is in the world") {
  const Shape3 shape{4, 5, 6};
  const Reorder r = reorder_between(orientation_of(oblique), parse_axcodes("IRA"));
  const Affine moved = multiply(oblique, reorder_affine(r, shape));
  CHECK(axcodes(orientation_of(moved)) == "IRA");
  CHECK(reorder_between(parse_axcodes("IRA"), parse_axcodes("IRA")) == Reorder{});
}

TEST_CASE("ranges are read in MONAI's forms") {
  using nlohmann::ordered_json;
  CHECK(parse_ranges(nullptr, "r").empty());
  const auto one = parse_ranges(0.5, "r");
  CHECK(one.size() == 1);
  CHECK(one[0].low == -0.5);
  const auto mixed = parse_ranges(ordered_json::parse("[0.1, [2, 3], null, 4]"), "r");
  CHECK(mixed.size() == 3);
  CHECK(mixed[1].low == 2);
  CHECK(mixed[2].high == 4);
  CHECK_THROWS_AS(parse_ranges("x", "r"), Error);
  CHECK_THROWS_AS(parse_ranges(ordered_json::parse("[[1, 2, 3]]"), "r"), Error);
}

TEST_CASE("shears are single-axis shears in a row, so they keep volume") {
  const Affine m = centred_affine({{}, {0.3, -0.2, 0.5, 0.1, 0.2, -0.4}, {}, {}}, 3);
  const double det = m[0] * (m[5] * m[10] - m[6] * m[9]) - m[1] * (m[4] * m[10] - m[6] * m[8]) +
                     m[2] * (m[4] * m[9] - m[5] * m[8]);
  CHECK(det == doctest::Approx(1));
}
