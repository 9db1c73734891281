// Several points of a grid at once, all of whose nodes lie within a volume: the weights of 16
// points in vectors, then each point's rows of nodes, which stand side by side in memory. What
// GridPoint (grid_voxel.h) does node by node, for the host.
//
// Invariant: what a point comes to depends on the point alone, not on those that it is computed
// with; so results are the same however points are cut.
#pragma once

#include "kernels/base/lanes.h"
#include "kernels/image/grid_voxel.h"

namespace sluice::kernels {

inline constexpr int grid_lanes = 16;

template <int K, int N>
struct GridRows {
  using T = float;
  static constexpr int L = grid_lanes;
  static constexpr int kept = K > 0 ? N : 1;
  T x[3][L];                             // the points
  std::int32_t within[L];                // whether all of a point's nodes are voxels
  T low[3][L];                           // the first node
  T weight[3][N][L], slope[3][kept][L];  // of all N

  // Whether a call's points may be computed so.
  static bool fits(const GridCall& call) {
    bool fit = call.axes == 3;
    for (int a = 0; a < 3; ++a)  // indices are whole numbers of T
      fit = fit && call.rule.order[a] == N - 1 && call.shape[a] < (1 << 24);
    return fit;
  }

  void set(const GridCall& call) {
    for (int l = 0; l < L; ++l) within[l] = 1;
    for (int a = 0; a < 3; ++a) {
      const T last = static_cast<T>(call.shape[a] - N), half = T(0.5) * static_cast<T>(N - 2);
      T t[L];
      SLUICE_LANES
      for (int l = 0; l < L; ++l) {
        const T v = x[a][l];
        // Order 0: halves go away from zero, and without extrapolation little lies outside.
        const T whole = std::floor(N == 1 ? v + T(0.5) : v - half);
        const bool in = N == 1 ? v >= 0 && v <= last : whole >= 0 && whole <= last;
        within[l] &= in ? 1 : 0;
        low[a][l] = in ? whole : T(0);
        t[l] = N == 1 ? T(0) : v - half - whole;
      }
      spline_weights<K, L>(N - 1, t, weight[a][0], slope[a][0], slope[a][0]);
    }
  }

  // The value and, for K > 0, its derivatives at point l of `image`, with these voxels a plane and
  // a row.
  Jet<T> read(const T* image, std::int64_t plane, std::int64_t row, int l) const {
    const T* from = image + first(plane, row, l);
    T value[N], d0[N], d1[N];
    for (int k = 0; k < N; ++k) value[k] = d0[k] = d1[k] = 0;
    for (int i = 0; i < N; ++i) {
      T v[N], v1[N];
      for (int k = 0; k < N; ++k) v[k] = v1[k] = 0;
      for (int j = 0; j < N; ++j) {
        const T* nodes = from + i * plane + j * row;
        for (int k = 0; k < N; ++k) {
          v[k] += weight[1][j][l] * nodes[k];
          if constexpr (K > 0) v1[k] += slope[1][j][l] * nodes[k];
        }
      }
      for (int k = 0; k < N; ++k) {
        value[k] += weight[0][i][l] * v[k];
        if constexpr (K > 0) {
          d0[k] += slope[0][i][l] * v[k];
          d1[k] += weight[0][i][l] * v1[k];
        }
      }
    }
    Jet<T> sum;
    for (int k = 0; k < N; ++k) {
      const T w = weight[2][k][l];
      sum.value += w * value[k];
      if constexpr (K > 0) {
        sum.d[0] += w * d0[k];
        sum.d[1] += w * d1[k];
        sum.d[2] += slope[2][k][l] * value[k];
      }
    }
    return sum;
  }

  // Adds, as GridPoint does, to what lies in planes [begin, end).
  void add(T* image, std::int64_t plane, std::int64_t row, int l, T value, const T* d,
           std::int64_t begin, std::int64_t end) const {
    T* to = image + first(plane, row, l);
    const auto above = static_cast<std::int64_t>(low[0][l]);
    T w[N], s[N];
    for (int k = 0; k < N; ++k) {
      w[k] = weight[2][k][l];
      if constexpr (K > 0) s[k] = slope[2][k][l];
    }
    for (int i = 0; i < N; ++i) {
      if (above + i < begin || above + i >= end) continue;
      for (int j = 0; j < N; ++j) {
        T* nodes = to + i * plane + j * row;
        const T both = weight[0][i][l] * weight[1][j][l];
        if constexpr (K == 0) {
          const T by_weight = value * both;
          for (int k = 0; k < N; ++k) nodes[k] += by_weight * w[k];
        } else {
          const T by_weight =
              d[0] * slope[0][i][l] * weight[1][j][l] + d[1] * weight[0][i][l] * slope[1][j][l];
          const T by_slope = d[2] * both;
          for (int k = 0; k < N; ++k) nodes[k] += by_weight * w[k] + by_slope * s[k];
        }
      }
    }
  }

 private:
  std::int64_t first(std::int64_t plane, std::int64_t row, int l) const {
    return static_cast<std::int64_t>(low[0][l]) * plane +
           static_cast<std::int64_t>(low[1][l]) * row + static_cast<std::int64_t>(low[2][l]);
  }
};

}  // namespace sluice::kernels
