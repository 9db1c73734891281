// Centred B-splines of orders 0 to 7: the weights of the nodes about a coordinate, and their first
// and second derivatives. For host and device.
//
//   order 3     low      low+1      low+2      low+3
//                |          |   x      |          |
//                           |<-t->|                      t in [0, 1)
//
// Invariant: weights come from the recurrence over orders, whose terms are not negative, so none
// loses digits; a derivative is a difference of weights of the order below.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

inline constexpr int spline_nodes = 8;  // of order 7

// The first node and how far the coordinate is into its piece.
template <class T>
SLUICE_HD std::int64_t spline_low(int order, T x, T& t) {
  if (order == 0) {
    t = 0;
    return static_cast<std::int64_t>(x < 0 ? std::ceil(x - T(0.5)) : std::floor(x + T(0.5)));
  }
  const T u = x - T(0.5) * static_cast<T>(order - 1), low = std::floor(u);
  t = u - low;
  return static_cast<std::int64_t>(low);
}

// `weight`, and of K derivatives `slope` and `bend`, of order + 1 nodes each, of Lanes coordinates
// at once: node j of lane l is number j Lanes + l.
template <int K, int Lanes = 1, class T>
SLUICE_HD void spline_weights(int order, const T* t, T* weight, T* slope, T* bend) {
  const auto each = [](auto&& lane) {
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) lane(l);
  };
  const auto of = [](const T* w, int j, int l) { return w[j * Lanes + l]; };
  each([&](int l) { weight[l] = 1; });
  for (int j = 1; j <= order; ++j) each([&](int l) { weight[j * Lanes + l] = 0; });
  for (int j = 0; K > 0 && j <= order; ++j)
    each([&](int l) {
      slope[j * Lanes + l] = 0;
      if (K > 1) bend[j * Lanes + l] = 0;
    });
  for (int q = 1; q <= order; ++q) {
    if (K > 0 && q == order)
      for (int j = 0; j <= order; ++j)
        each([&](int l) {
          slope[j * Lanes + l] =
              (j > 0 ? of(weight, j - 1, l) : T(0)) - (j < order ? of(weight, j, l) : T(0));
        });
    if (K > 1 && q == order - 1)
      for (int j = 0; j <= order; ++j)
        each([&](int l) {
          bend[j * Lanes + l] = (j > 1 ? of(weight, j - 2, l) : T(0)) -
                                2 * (j > 0 && j < order ? of(weight, j - 1, l) : T(0)) +
                                (j < order - 1 ? of(weight, j, l) : T(0));
        });
    const T share = T(1) / static_cast<T>(q);
    for (int j = q; j >= 0; --j)
      each([&](int l) {
        const T before = j > 0 ? static_cast<T>(q - j) + t[l] : T(0);
        const T after = static_cast<T>(1 + j) - t[l];
        weight[j * Lanes + l] = (before * (j > 0 ? of(weight, j - 1, l) : T(0)) +
                                 (j < q ? after * of(weight, j, l) : T(0))) *
                                share;
      });
  }
}

}  // namespace sluice::kernels
