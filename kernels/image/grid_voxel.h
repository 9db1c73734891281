// One point of a grid on an image: the nodes about it, the value and its derivatives there, and the
// adjoint, which adds to the nodes. The one functor of grid_pull, grid_push, grid_count, grid_grad
// and all of their gradients, for host and device.
//
// Invariant: absent axes (of 1-D and 2-D images) come last, with one voxel and one node of
// weight 1. Nodes of value 0 are left out, so what stands in the image elsewhere is not read for
// them. A line is what runs along the image's last axis. Loops over axes go to 3, so that a device
// keeps what they index in registers.
#pragma once

#include "kernels/image/bound.h"
#include "kernels/image/spline.h"

namespace sluice::kernels {

struct GridRule {
  int order[3] = {1, 1, 1};
  Bound bound[3] = {Bound::zero, Bound::zero, Bound::zero};
  bool extrapolate = true;
};

// What is computed for each point.
enum class GridWork : std::uint8_t {
  value,     // out [B, C, points]       the image there
  slopes,    // out [B, C, points, D]    its derivatives along the axes
  move,      // out [B, points, D]       sum over channels of value * slope; no values: ones
  turn,      // out [B, points, D]       sum over channels and axes of values * second derivative
  add,       // out [B, C, voxels]       adds values [B, C, points]; no values: ones
  add_slope  // out [B, C, voxels]       adds values [B, C, points, D] by the slopes
};

struct GridCall {
  GridRule rule;
  GridWork work = GridWork::value;
  int axes = 3;
  std::int64_t batch = 1, channels = 1, points = 0;
  std::int64_t shape[3] = {1, 1, 1};
  const void *image = nullptr, *grid = nullptr, *values = nullptr;
  void* out = nullptr;

  SLUICE_HD std::int64_t voxels() const { return shape[0] * shape[1] * shape[2]; }
  SLUICE_HD std::int64_t lines() const { return shape[0] * shape[1]; }
  SLUICE_HD int nodes(int axis) const { return axis < axes ? rule.order[axis] + 1 : 1; }
  SLUICE_HD bool adds() const { return work == GridWork::add || work == GridWork::add_slope; }
};

// For adding by one thread a line: the uses of lines by points [begin, end) of all batch members
// together, of which each has nodes(0) * nodes(1).
struct GridUses {
  std::int64_t begin = 0, end = 0;
  std::int32_t* line = nullptr;  // of each use: member * lines() + line; none: batch * lines()
  const std::int64_t* sorted = nullptr;  // the uses by line, those of a line in their order
  const std::int64_t* first = nullptr;   // [batch * lines() + 1] where a line's begin there

  SLUICE_HD static int of_a_point(const GridCall& call) { return call.nodes(0) * call.nodes(1); }
  SLUICE_HD std::int64_t count(const GridCall& call) const {
    return (end - begin) * of_a_point(call);
  }
};

// Value, first and second derivatives; K: how many of these are computed.
template <class T>
struct Jet {
  T value = 0, d[3] = {0, 0, 0};
  T dd[3][3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
};

// N: nodes an axis where all have the same number; 0: told at run time.
template <class T, int K, int N>
struct GridPoint {
  static constexpr int most = N > 0 ? N : spline_nodes;
  int count[3] = {1, 1, 1};
  std::int64_t cell[3][most] = {};  // its place in memory, -1: left out
  T weight[3][most] = {}, slope[3][most] = {}, bend[3][most] = {};

  // False where the point is outside and counts for nothing.
  SLUICE_HD bool set(const GridCall& call, const T* x) {
    for (int a = 0; a < 3; ++a)
      if (a < call.axes && !inside(call, x[a], a)) return false;
    std::int64_t stride = 1;
    for (int a = 2; a >= 0; --a) {
      if (a < call.axes) {
        set_axis(call, x[a], a, stride);
      } else {
        for (int j = 0; j < most; ++j) cell[a][j] = j == 0 ? 0 : -1;
        weight[a][0] = 1;
      }
      stride *= call.shape[a];
    }
    return true;
  }

  SLUICE_HD Jet<T> read(const T* image) const {
    Jet<T> sum;
    for (int i = 0; i < nodes(0); ++i) {
      if (cell[0][i] < 0) continue;
      T v = 0, v1 = 0, v2 = 0, v11 = 0, v12 = 0, v22 = 0;
      for (int j = 0; j < nodes(1); ++j) {
        if (cell[1][j] < 0) continue;
        const T* from = image + cell[0][i] + cell[1][j];
        T c = 0, c2 = 0, c22 = 0;
        for (int k = 0; k < nodes(2); ++k) {
          if (cell[2][k] < 0) continue;
          const T x = from[cell[2][k]];
          c += weight[2][k] * x;
          if (K > 0) c2 += slope[2][k] * x;
          if (K > 1) c22 += bend[2][k] * x;
        }
        v += weight[1][j] * c;
        if (K > 0) v1 += slope[1][j] * c, v2 += weight[1][j] * c2;
        if (K > 1) v11 += bend[1][j] * c, v12 += slope[1][j] * c2, v22 += weight[1][j] * c22;
      }
      const T w = weight[0][i];
      sum.value += w * v;
      if (K > 0) {
        const T s = slope[0][i];
        sum.d[0] += s * v;
        sum.d[1] += w * v1;
        sum.d[2] += w * v2;
        if (K > 1) {
          sum.dd[0][0] += bend[0][i] * v;
          sum.dd[0][1] += s * v1;
          sum.dd[0][2] += s * v2;
          sum.dd[1][1] += w * v11;
          sum.dd[1][2] += w * v12;
          sum.dd[2][2] += w * v22;
        }
      }
    }
    if (K > 1)
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < a; ++b) sum.dd[a][b] = sum.dd[b][a];
    return sum;
  }

  // Adds `value` by the weights and d[a] by the slopes to what lies in rows [begin, end) of the
  // first axis, whose rows are `row` long.
  SLUICE_HD void add(T* image, T value, const T* d, std::int64_t begin, std::int64_t end,
                     std::int64_t row) const {
    for (int i = 0; i < nodes(0); ++i) {
      if (cell[0][i] < begin * row || cell[0][i] >= end * row) continue;
      for (int j = 0; j < nodes(1); ++j)
        if (cell[1][j] >= 0) add_line(image, value, d, i, j);
    }
  }
  // To what lies in one line.
  SLUICE_HD void add_line(T* image, T value, const T* d, int i, int j) const {
    T* to = image + cell[0][i] + cell[1][j];
    T by_weight = value * weight[0][i] * weight[1][j], by_slope = 0;
    if (K > 0) {
      by_weight += d[0] * slope[0][i] * weight[1][j] + d[1] * weight[0][i] * slope[1][j];
      by_slope = d[2] * weight[0][i] * weight[1][j];
    }
    for (int k = 0; k < nodes(2); ++k)
      if (cell[2][k] >= 0)
        to[cell[2][k]] += by_weight * weight[2][k] + (K > 0 ? by_slope * slope[2][k] : T(0));
  }

  // Whether coordinate x counts, on axis a.
  SLUICE_HD static bool inside(const GridCall& call, T x, int a) {
    if (!(x > T(-4e18) && x < T(4e18))) return false;  // not finite, or no index
    const T edge = static_cast<T>(call.shape[a] - 1) + T(0.05);
    return call.rule.extrapolate || (x >= T(-0.05) && x < edge);
  }

  SLUICE_HD int nodes(int a) const { return N > 0 ? N : count[a]; }

 private:
  SLUICE_HD void set_axis(const GridCall& call, T x, int a, std::int64_t stride) {
    const int order = N > 0 ? N - 1 : call.rule.order[a];
    T t = 0;
    const std::int64_t low = spline_low(order, x, t), n = call.shape[a];
    spline_weights<K>(order, &t, weight[a], slope[a], bend[a]);
    const bool within = low >= 0 && low + order < n;
    count[a] = order + 1;
    for (int j = 0; j <= order; ++j) {
      cell[a][j] = (low + j) * stride;
      if (within) continue;
      const BoundNode node = bound_node(call.rule.bound[a], low + j, n);
      cell[a][j] = node.sign == 0 ? -1 : node.index * stride;
      const T sign = static_cast<T>(node.sign);
      weight[a][j] *= sign;
      if (K > 0) slope[a][j] *= sign, bend[a][j] *= sign;
    }
  }
};

// All of `call` that only reads the image, for point i of batch member b; read(c) is channel c
// there.
template <class T, int K, class Read>
SLUICE_HD inline void grid_give(const GridCall& call, std::int64_t b, std::int64_t i, Read&& read) {
  const int D = call.axes;
  const T* values = static_cast<const T*>(call.values);
  T* out = static_cast<T*>(call.out);
  T sum[3] = {0, 0, 0};
  for (std::int64_t c = 0; c < call.channels; ++c) {
    const Jet<T> jet = read(c);
    const std::int64_t at = (b * call.channels + c) * call.points + i;
    if (K == 0) out[at] = jet.value;
    if (K == 1 && call.work == GridWork::slopes)
      for (int a = 0; a < 3; ++a)
        if (a < D) out[at * D + a] = jet.d[a];
    if (K == 1 && call.work == GridWork::move)
      for (int a = 0; a < 3; ++a) sum[a] += (values ? values[at] : T(1)) * jet.d[a];
    if (K == 2)
      for (int a = 0; a < 3; ++a)
        for (int o = 0; o < 3; ++o)
          if (o < D) sum[a] += values[at * D + o] * jet.dd[o][a];
  }
  if (call.work == GridWork::move || call.work == GridWork::turn)
    for (int a = 0; a < 3; ++a)
      if (a < D) out[(b * call.points + i) * D + a] = sum[a];
}

template <class T, int K, int N>
SLUICE_HD void grid_read(const GridCall& call, std::int64_t b, std::int64_t i) {
  GridPoint<T, K, N> point;
  const bool counts =
      point.set(call, static_cast<const T*>(call.grid) + (b * call.points + i) * call.axes);
  const T* image = static_cast<const T*>(call.image) + b * call.channels * call.voxels();
  grid_give<T, K>(call, b, i, [&](std::int64_t c) {
    return counts ? point.read(image + c * call.voxels()) : Jet<T>{};
  });
}

// What `call` adds to channel c of the image, for point i of batch member b: add(channel, value,
// slopes).
template <class T, int K, class Add>
SLUICE_HD inline void grid_take_channel(const GridCall& call, std::int64_t b, std::int64_t c,
                                        std::int64_t i, Add&& add) {
  const T* values = static_cast<const T*>(call.values);
  const std::int64_t channel = b * call.channels + c, at = channel * call.points + i;
  T value = 0, d[3] = {0, 0, 0};
  if (K == 0)
    value = values ? values[at] : T(1);
  else
    for (int a = 0; a < 3; ++a)
      if (a < call.axes) d[a] = values[at * call.axes + a];
  add(static_cast<T*>(call.out) + channel * call.voxels(), value, d);
}
// To all channels.
template <class T, int K, class Add>
SLUICE_HD inline void grid_take(const GridCall& call, std::int64_t b, std::int64_t i,
                                const Add& add) {
  for (std::int64_t c = 0; c < call.channels; ++c) grid_take_channel<T, K>(call, b, c, i, add);
}

// Adds to rows [begin, end) of the image alone.
template <class T, int K, int N>
SLUICE_HD void grid_add(const GridCall& call, std::int64_t b, std::int64_t i, std::int64_t begin,
                        std::int64_t end) {
  const std::int64_t row = call.shape[1] * call.shape[2];
  const T* x = static_cast<const T*>(call.grid) + (b * call.points + i) * call.axes;
  GridPoint<T, K, N> point;
  if (begin > 0 || end < call.shape[0]) {  // most points are seen to lie elsewhere at little cost
    if (!point.inside(call, x[0], 0)) return;
    T t = 0;
    const int order = N > 0 ? N - 1 : call.rule.order[0];
    const std::int64_t low = spline_low(order, x[0], t);
    if (low >= 0 && low + order < call.shape[0] && (low >= end || low + order < begin)) return;
  }
  if (!point.set(call, x)) return;
  grid_take<T, K>(call, b, i,
                  [&](T* to, T value, const T* d) { point.add(to, value, d, begin, end, row); });
}

// The lines that point p of all members' uses; its uses follow each other.
template <int N>
SLUICE_HD void grid_use(const GridCall& call, const GridUses& uses, std::int64_t p) {
  const std::int64_t b = p / call.points, lines = call.lines();
  GridPoint<float, 0, N> point;
  const bool counts = point.set(call, static_cast<const float*>(call.grid) + p * call.axes);
  std::int32_t* line = uses.line + (p - uses.begin) * GridUses::of_a_point(call);
  for (int i = 0; i < call.nodes(0); ++i)
    for (int j = 0; j < call.nodes(1); ++j) {
      const bool there = counts && point.cell[0][i] >= 0 && point.cell[1][j] >= 0;
      *line++ = static_cast<std::int32_t>(
          there ? b * lines + (point.cell[0][i] + point.cell[1][j]) / call.shape[2]
                : call.batch * lines);
    }
}

// Adds to line l of all members', in channel c, what its uses bring: in the host's order.
template <int K, int N>
SLUICE_HD void grid_add_line(const GridCall& call, const GridUses& uses, std::int64_t l,
                             std::int64_t c) {
  const int each = GridUses::of_a_point(call);
  for (std::int64_t u = uses.first[l]; u < uses.first[l + 1]; ++u) {
    const std::int64_t p = uses.begin + uses.sorted[u] / each;
    const int node = static_cast<int>(uses.sorted[u] % each);
    GridPoint<float, K, N> point;
    point.set(call, static_cast<const float*>(call.grid) + p * call.axes);
    grid_take_channel<float, K>(
        call, l / call.lines(), c, p % call.points, [&](float* to, float value, const float* d) {
          point.add_line(to, value, d, node / call.nodes(1), node % call.nodes(1));
        });
  }
}

template <int I>
struct Constant {
  static constexpr int value = I;
};

// run(K, N) with the number of derivatives K and of nodes an axis N (0: told at run time). Every
// order has its own N where `Every` is given; else those that most use.
template <bool Every = false, class Run>
auto with_grid(const GridCall& call, Run&& run) {
  const int* order = call.rule.order;
  bool same = true;
  for (int a = 1; a < call.axes; ++a) same = same && order[a] == order[0];
  const int n = same ? order[0] + 1 : 0;
  const auto nodes = [&](auto derivatives) {
    constexpr bool every = Every && decltype(derivatives)::value < 2;
    if (n == 1) return run(derivatives, Constant<1>{});
    if (n == 2) return run(derivatives, Constant<2>{});
    if (n == 4) return run(derivatives, Constant<4>{});
    if constexpr (every) {
      if (n == 3) return run(derivatives, Constant<3>{});
      if (n == 5) return run(derivatives, Constant<5>{});
      if (n == 6) return run(derivatives, Constant<6>{});
      if (n == 7) return run(derivatives, Constant<7>{});
      if (n == 8) return run(derivatives, Constant<8>{});
    }
    return run(derivatives, Constant<0>{});
  };
  switch (call.work) {
    case GridWork::value:
    case GridWork::add:
      return nodes(Constant<0>{});
    case GridWork::turn:
      return nodes(Constant<2>{});
    default:
      return nodes(Constant<1>{});
  }
}

}  // namespace sluice::kernels
