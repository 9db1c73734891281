#include "kernels/image/affine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "engine/base/error.h"

namespace sluice {
namespace {

// Elimination with partial pivoting, as LAPACK does it: MONAI's shapes are rounded at halves, and
// this leaves simple matrices exact (5 / 2 is 2.5), where a cofactor formula would not.
// False where the determinant is nothing beside the product of the columns' norms.
bool solve_into(Affine a, Affine b, Affine& out) {
  double size = 1, det = 1;
  for (int c = 0; c < 3; ++c) size *= std::hypot(a[c], a[4 + c], a[8 + c]);
  for (int k = 0; k < 4; ++k) {
    int pivot = k;
    for (int r = k + 1; r < 4; ++r)
      if (std::abs(a[4 * r + k]) > std::abs(a[4 * pivot + k])) pivot = r;
    for (int c = 0; c < 4; ++c) {
      std::swap(a[4 * k + c], a[4 * pivot + c]);
      std::swap(b[4 * k + c], b[4 * pivot + c]);
    }
    if (a[4 * k + k] == 0) return false;
    if (k < 3) det *= a[4 * k + k];
    for (int r = k + 1; r < 4; ++r) {
      const double share = a[4 * r + k] / a[4 * k + k];
      for (int c = 0; c < 4; ++c) {
        a[4 * r + c] -= share * a[4 * k + c];
        b[4 * r + c] -= share * b[4 * k + c];
      }
    }
  }
  for (int k = 3; k >= 0; --k)
    for (int c = 0; c < 4; ++c) {
      double v = b[4 * k + c];
      for (int j = k + 1; j < 4; ++j) v -= a[4 * k + j] * out[4 * j + c];
      out[4 * k + c] = v / a[4 * k + k];
    }
  return std::abs(det) > 1e-12 * size;
}

constexpr Affine one{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

Affine linear_part(Affine a) {
  a[3] = a[7] = a[11] = 0;
  return a;
}

// Upper triangular u with u'u = m'm and a positive diagonal, so m = rotation * u.
Affine cholesky_of_gram(const Affine& m) {
  const auto dot = [&](int a, int b) {
    return m[a] * m[b] + m[4 + a] * m[4 + b] + m[8 + a] * m[8 + b];
  };
  const double u00 = std::sqrt(dot(0, 0)), u01 = dot(0, 1) / u00, u02 = dot(0, 2) / u00;
  const double u11 = std::sqrt(dot(1, 1) - u01 * u01), u12 = (dot(1, 2) - u01 * u02) / u11;
  const double u22 = std::sqrt(dot(2, 2) - u02 * u02 - u12 * u12);
  return {u00, u01, u02, 0, 0, u11, u12, 0, 0, 0, u22, 0, 0, 0, 0, 1};
}

// The closest rotation (or reflection): Newton's iteration for the polar decomposition (Higham
// 1986), which converges quadratically for every invertible matrix.
Affine polar_factor(Affine m, const Affine& source) {
  for (int i = 0; i < 60; ++i) {
    Affine inv;
    if (!solve_into(m, one, inv))
      throw DataError("no orientation: the affine is singular, " + text(source));
    double moved = 0;
    Affine next;
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 4; ++c) {
        next[4 * r + c] = 0.5 * (m[4 * r + c] + inv[4 * c + r]);
        moved = std::max(moved, std::abs(next[4 * r + c] - m[4 * r + c]));
      }
    m = next;
    if (moved < 1e-15) break;
  }
  return m;
}

// Where voxel 0 of the new grid lies: at the corner that is least on every axis; where the grids
// are rotated against each other there is none, and the volumes' centres are put together.
Vec3 place_origin(const Affine& from, const Affine& to, const Shape3& shape, const Shape3& out,
                  const std::array<Vec3, 8>& source, const std::array<Vec3, 8>& mapped,
                  const Vec3& least) {
  for (int i = 0; i < 8; ++i) {
    bool smallest = true;
    for (int d = 0; d < 3; ++d) smallest &= mapped[i][d] - least[d] <= 1e-8;
    if (smallest) return map_point(from, source[i]);
  }
  const Vec3 a = map_point(from, {shape[0] / 2.0, shape[1] / 2.0, shape[2] / 2.0});
  const Vec3 b = map_point(linear_part(to), {out[0] / 2.0, out[1] / 2.0, out[2] / 2.0});
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

}  // namespace

Affine multiply(const Affine& a, const Affine& b) {
  Affine out{};
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c)
      for (int k = 0; k < 4; ++k) out[4 * r + c] += a[4 * r + k] * b[4 * k + c];
  return out;
}

Affine solve(const Affine& a, const Affine& b) {
  Affine out;
  if (!solve_into(a, b, out)) throw DataError("the affine is singular: " + text(a));
  return out;
}

Affine inverse(const Affine& a) { return solve(a, one); }

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
  Affine inv;
  if (!solve_into(cholesky_of_gram(a), one, inv))
    throw DataError("no spacing: the affine is singular, " + text(a));
  return multiply(multiply(linear_part(a), inv), scaling(spacing));
}

Placement compute_shape_offset(const Shape3& shape, const Affine& from, const Affine& to,
                               bool extent) {
  const Affine map = solve(to, from);
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
  for (int d = 0; d < 3; ++d) {  // half to even, as numpy rounds
    const double voxels = most[d] - least[d] + (extent ? 0 : 1);
    if (!(voxels < 1e6))
      throw DataError("a new axis of " + std::to_string(voxels) + " voxels: the affine is wrong");
    out.shape[d] = std::max<std::int64_t>(std::llrint(voxels), 1);
  }
  out.offset = place_origin(from, to, shape, out.shape, source, mapped, least);
  if (extent) {
    Vec3 half;
    for (int d = 0; d < 3; ++d) half[d] = 0.5 * (double(shape[d]) / double(out.shape[d]) - 1);
    const Vec3 at = map_point(from, half);
    for (int d = 0; d < 3; ++d)
      out.offset[d] = out.offset[d] == 0 ? 0 : std::copysign(at[d], out.offset[d]);
  }
  return out;
}

Orientation orientation_of(const Affine& a) {
  const Vec3 spacing = voxel_spacing(a);
  const Affine m =
      multiply(linear_part(a), scaling({1 / spacing[0], 1 / spacing[1], 1 / spacing[2]}));
  const Affine rotation = polar_factor(m, a);

  // The voxel axis that is most clearly along one world axis chooses first.
  const auto strength = [&](int c) {
    return std::max({std::abs(rotation[c]), std::abs(rotation[4 + c]), std::abs(rotation[8 + c])});
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
          (best < 0 || std::abs(rotation[4 * r + c]) > std::abs(rotation[4 * best + c])))
        best = r;
    taken[best] = true;
    out.axis[c] = best;
    out.sign[c] = rotation[4 * best + c] < 0 ? -1 : 1;
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
