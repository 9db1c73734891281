#include "kernels/affine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "engine/error.h"

namespace sluice {
namespace {

using Mat3 = std::array<double, 9>;

Mat3 linear_part(const Affine& a) {
  return {a[0], a[1], a[2], a[4], a[5], a[6], a[8], a[9], a[10]};
}

// Adjugate and determinant: exact enough for voxel matrices, and no pivoting to get wrong.
bool invert(const Mat3& m, Mat3& out) {
  const auto minor2 = [&](int a, int b, int c, int d) { return m[a] * m[d] - m[b] * m[c]; };
  out = {minor2(4, 5, 7, 8), minor2(2, 1, 8, 7), minor2(1, 2, 4, 5),
         minor2(5, 3, 8, 6), minor2(0, 2, 6, 8), minor2(2, 0, 5, 3),
         minor2(3, 4, 6, 7), minor2(1, 0, 7, 6), minor2(0, 1, 3, 4)};
  const double det = m[0] * out[0] + m[1] * out[3] + m[2] * out[6];
  double size = 1;  // the product of the column norms bounds |det| (Hadamard)
  for (int c = 0; c < 3; ++c) size *= std::hypot(m[c], m[3 + c], m[6 + c]);
  if (!(std::abs(det) > 1e-12 * size)) return false;
  for (double& v : out) v /= det;
  return true;
}

// Upper triangular u with u'u = m'm and a positive diagonal, so m = rotation * u.
Mat3 cholesky_of_gram(const Mat3& m) {
  const auto dot = [&](int a, int b) {
    return m[a] * m[b] + m[3 + a] * m[3 + b] + m[6 + a] * m[6 + b];
  };
  const double u00 = std::sqrt(dot(0, 0)), u01 = dot(0, 1) / u00, u02 = dot(0, 2) / u00;
  const double u11 = std::sqrt(dot(1, 1) - u01 * u01), u12 = (dot(1, 2) - u01 * u02) / u11;
  const double u22 = std::sqrt(dot(2, 2) - u02 * u02 - u12 * u12);
  return {u00, u01, u02, 0, u11, u12, 0, 0, u22};
}

// The closest rotation (or reflection): Newton's iteration for the polar decomposition (Higham
// 1986), which converges quadratically for every invertible matrix.
Mat3 polar_factor(Mat3 m, const Affine& source) {
  for (int i = 0; i < 60; ++i) {
    Mat3 inv;
    if (!invert(m, inv)) throw DataError("no orientation: the affine is singular, " + text(source));
    double moved = 0;
    Mat3 next;
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) {
        next[3 * r + c] = 0.5 * (m[3 * r + c] + inv[3 * c + r]);
        moved = std::max(moved, std::abs(next[3 * r + c] - m[3 * r + c]));
      }
    m = next;
    if (moved < 1e-15) break;
  }
  return m;
}

}  // namespace

Affine multiply(const Affine& a, const Affine& b) {
  Affine out{};
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c)
      for (int k = 0; k < 4; ++k) out[4 * r + c] += a[4 * r + k] * b[4 * k + c];
  return out;
}

Affine inverse(const Affine& a) {
  Mat3 m;
  if (!invert(linear_part(a), m)) throw DataError("the affine is singular: " + text(a));
  Affine out{m[0], m[1], m[2], 0, m[3], m[4], m[5], 0, m[6], m[7], m[8], 0, 0, 0, 0, 1};
  for (int r = 0; r < 3; ++r)
    out[4 * r + 3] = -(m[3 * r] * a[3] + m[3 * r + 1] * a[7] + m[3 * r + 2] * a[11]);
  return out;
}

Vec3 map_point(const Affine& a, const Vec3& p) {
  Vec3 out;
  for (int r = 0; r < 3; ++r)
    out[r] = a[4 * r] * p[0] + a[4 * r + 1] * p[1] + a[4 * r + 2] * p[2] + a[4 * r + 3];
  return out;
}

Affine translation(const Vec3& s) {
  return {1, 0, 0, s[0], 0, 1, 0, s[1], 0, 0, 1, s[2], 0, 0, 0, 1};
}

Affine scaling(const Vec3& s) { return {s[0], 0, 0, 0, 0, s[1], 0, 0, 0, 0, s[2], 0, 0, 0, 0, 1}; }

Affine centre_of(const Shape3& n) {
  return translation({(n[0] - 1) / 2.0, (n[1] - 1) / 2.0, (n[2] - 1) / 2.0});
}

bool near(const Affine& a, const Affine& b, double tolerance) {
  for (int i = 0; i < 16; ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance + 1e-5 * std::abs(b[i]))) return false;
  return true;
}

std::string text(const Affine& a) {
  std::string s;
  for (int i = 0; i < 12; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%.6g", i == 0 ? "[" : i % 4 == 0 ? "; " : ", ", a[i]);
    s += number;
  }
  return s + "]";
}

Vec3 voxel_spacing(const Affine& a) {
  Vec3 out;
  for (int c = 0; c < 3; ++c) {
    const double norm = std::sqrt(a[c] * a[c] + a[4 + c] * a[4 + c] + a[8 + c] * a[8 + c]);
    out[c] = norm == 0 ? 1 : norm;
  }
  return out;
}

Affine zoom_affine(const Affine& a, Vec3 spacing, bool diagonal) {
  const Vec3 old = voxel_spacing(a);
  for (int i = 0; i < 3; ++i)
    if (!(spacing[i] > 0)) spacing[i] = old[i];
  if (diagonal) return scaling(spacing);
  const Mat3 m = linear_part(a), u = cholesky_of_gram(m);
  Mat3 inv;
  if (!invert(u, inv)) throw DataError("no spacing: the affine is singular, " + text(a));
  Affine out{};
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) {
      double rotation = 0;
      for (int k = 0; k < 3; ++k) rotation += m[3 * r + k] * inv[3 * k + c];
      out[4 * r + c] = rotation * spacing[c];
    }
  out[15] = 1;
  return out;
}

Placement compute_shape_offset(const Shape3& shape, const Affine& from, const Affine& to,
                               bool extent) {
  const Affine map = multiply(inverse(to), from);
  const double low = extent ? -0.5 : 0, cut = extent ? 0.5 : 1;
  std::array<Vec3, 8> source, mapped;
  for (int i = 0; i < 8; ++i) {
    for (int d = 0; d < 3; ++d)
      source[i][d] = i >> (2 - d) & 1 ? static_cast<double>(shape[d]) - cut : low;
    mapped[i] = map_point(map, source[i]);
  }
  Placement out;
  Vec3 least = mapped[0], most = mapped[0];
  for (const Vec3& p : mapped)
    for (int d = 0; d < 3; ++d) {
      least[d] = std::min(least[d], p[d]);
      most[d] = std::max(most[d], p[d]);
    }
  for (int d = 0; d < 3; ++d)  // half to even, as numpy rounds
    out.shape[d] = std::llrint(std::nearbyint(most[d] - least[d] + (extent ? 0 : 1)));

  // The corner that is least on every axis becomes voxel 0; where the grids are rotated against
  // each other there is none, and the volumes' centres are put together.
  const auto corner = std::find_if(mapped.begin(), mapped.end(), [&](const Vec3& p) {
    return p[0] - least[0] <= 1e-8 && p[1] - least[1] <= 1e-8 && p[2] - least[2] <= 1e-8;
  });
  if (corner != mapped.end()) {
    out.offset = map_point(from, source[corner - mapped.begin()]);
  } else {
    const Vec3 a = map_point(from, {shape[0] / 2.0, shape[1] / 2.0, shape[2] / 2.0});
    Affine linear = to;
    linear[3] = linear[7] = linear[11] = 0;
    const Vec3 b = map_point(linear, {out.shape[0] / 2.0, out.shape[1] / 2.0, out.shape[2] / 2.0});
    out.offset = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
  }
  if (extent) {
    Vec3 half;
    for (int d = 0; d < 3; ++d) half[d] = 0.5 * (double(shape[d]) / double(out.shape[d]) - 1);
    const Vec3 at = map_point(from, half);
    for (int d = 0; d < 3; ++d)
      out.offset[d] = out.offset[d] == 0 ? 0 : std::copysign(std::abs(at[d]), out.offset[d]);
  }
  return out;
}

Orientation orientation_of(const Affine& a) {
  const Vec3 spacing = voxel_spacing(a);
  Mat3 m = linear_part(a);
  for (int i = 0; i < 9; ++i) m[i] /= spacing[i % 3];
  const Mat3 rotation = polar_factor(m, a);

  // The voxel axis that is most clearly along one world axis chooses first.
  const auto strength = [&](int c) {
    return std::max({std::abs(rotation[c]), std::abs(rotation[3 + c]), std::abs(rotation[6 + c])});
  };
  std::array<int, 3> order{0, 1, 2};
  std::stable_sort(order.begin(), order.end(),
                   [&](int x, int y) { return strength(x) > strength(y); });
  Orientation out;
  std::array<bool, 3> taken{};
  for (int c : order) {
    int best = -1;
    for (int r = 0; r < 3; ++r)
      if (!taken[r] &&
          (best < 0 || std::abs(rotation[3 * r + c]) > std::abs(rotation[3 * best + c])))
        best = r;
    taken[best] = true;
    out.axis[c] = best;
    out.sign[c] = rotation[3 * best + c] < 0 ? -1 : 1;
  }
  return out;
}

Orientation parse_axcodes(std::string_view codes) {
  constexpr std::string_view letters = "LRPAIS";
  Orientation out;
  std::array<bool, 3> taken{};
  bool good = codes.size() == 3;
  for (std::size_t i = 0; good && i < 3; ++i) {
    const auto at = letters.find(codes[i]);
    good = at != letters.npos && !taken[at / 2];
    if (!good) break;
    taken[at / 2] = true;
    out.axis[i] = static_cast<int>(at / 2);
    out.sign[i] = at % 2 ? 1 : -1;
  }
  if (!good)
    throw DataError("axcodes \"" + std::string(codes) +
                    "\" must be three letters, one each of L/R, P/A and I/S");
  return out;
}

std::string axcodes(const Orientation& o) {
  std::string s;
  for (int i = 0; i < 3; ++i) s += "LRPAIS"[2 * o.axis[i] + (o.sign[i] > 0)];
  return s;
}

Reorder reorder_between(const Orientation& have, const Orientation& want) {
  Reorder out;
  for (int o = 0; o < 3; ++o)
    for (int s = 0; s < 3; ++s)
      if (want.axis[o] == have.axis[s]) {
        out.from[o] = s;
        out.flip[o] = want.sign[o] != have.sign[s];
      }
  return out;
}

Shape3 reorder_shape(const Reorder& r, const Shape3& source) {
  return {source[r.from[0]], source[r.from[1]], source[r.from[2]]};
}

Affine reorder_affine(const Reorder& r, const Shape3& source) {
  Affine out{};
  out[15] = 1;
  for (int o = 0; o < 3; ++o) {
    const int s = r.from[o];
    out[4 * s + o] = r.flip[o] ? -1 : 1;
    if (r.flip[o]) out[4 * s + 3] = static_cast<double>(source[s] - 1);
  }
  return out;
}

}  // namespace sluice
