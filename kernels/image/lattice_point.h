// A point of the permutohedral lattice (Adams, Baek, Davis 2010): the d + 1 vertices of the simplex
// that a feature of d numbers lies in, and the weight of each. For host and device.
//
// Invariant: everything is computed in double, with no product left for a compiler to contract, so
// that every device finds the same vertices.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

// D: numbers of a feature; 0: told at run time, at most `lattice_most`.
inline constexpr int lattice_most = 64;

template <int D>
struct LatticePoint {
  static constexpr int most = D > 0 ? D : lattice_most;
  int d = D;
  std::int32_t corner[most + 1] = {};  // the vertex of remainder 0
  int rank[most + 1] = {};
  double weight[most + 2] = {};  // of vertex 0 .. d

  // `feature(i)` is divided by its sigma. False where a vertex has no number.
  template <class Feature>
  SLUICE_HD bool set(int axes, Feature&& feature) {
    d = D > 0 ? D : axes;
    double e[most + 1], above = 0;  // on the plane whose coordinates' sum is 0
    for (int i = d; i > 0; --i) {
      const double scale = (d + 1) * sqrt(2.0 / 3) / sqrt(static_cast<double>(i) * (i + 1));
      const double x = feature(i - 1), f = x * scale;
      e[i] = fma(static_cast<double>(-i), f, above);
      above = fma(x, scale, above);
    }
    e[0] = above;
    int sum = 0;
    for (int i = 0; i <= d; ++i) {
      const double v = e[i] * (1.0 / (d + 1));
      if (!(fabs(e[i]) < 1e9)) return false;
      const auto below = static_cast<std::int32_t>(floor(v)),
                 above_it = static_cast<std::int32_t>(ceil(v));
      const double down = below * static_cast<double>(d + 1),
                   up = above_it * static_cast<double>(d + 1);
      const int steps = up - e[i] < e[i] - down ? above_it : below;
      corner[i] = steps * (d + 1);
      sum += steps;
      rank[i] = 0;
    }
    for (int i = 0; i < d; ++i)
      for (int j = i + 1; j <= d; ++j) {
        const int less = e[i] - corner[i] < e[j] - corner[j];
        rank[i] += less;
        rank[j] += 1 - less;
      }
    for (int i = 0; i <= d; ++i) {
      rank[i] += sum;
      const int turn = rank[i] < 0 ? d + 1 : rank[i] > d ? -(d + 1) : 0;
      rank[i] += turn;
      corner[i] += turn;
    }
    for (int i = 0; i <= d + 1; ++i) weight[i] = 0;
    for (int i = 0; i <= d; ++i) {
      const double u = (e[i] - corner[i]) / (d + 1);
      weight[d - rank[i]] += u;
      weight[d + 1 - rank[i]] -= u;
    }
    weight[0] += 1 + weight[d + 1];
    return true;
  }

  // Whether the vertices are those of another point.
  SLUICE_HD bool same_simplex(const LatticePoint& other) const {
    bool same = true;
    for (int i = 0; i <= d; ++i) same &= corner[i] == other.corner[i] && rank[i] == other.rank[i];
    return same;
  }

  // Number i, of d, that names vertex k.
  SLUICE_HD std::int32_t key(int k, int i) const {
    return corner[i] + (rank[i] <= d - k ? k : k - d - 1);
  }
};

}  // namespace sluice::kernels
