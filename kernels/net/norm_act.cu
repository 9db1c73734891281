// Norm, activation and residual over channels-last memory: statistics, forward, the backward pass's
// sums and its gradient, one launch each.
//
// A thread owns the channels of one 16-byte column and walks down the rows, so what belongs to a
// channel stays in its registers and a warp reads whole lines:
//
//   row 0   [c0..c7][c8..c15] ...   thread 0, thread 1, ...
//   row 1   [c0..c7][c8..c15] ...   as many rows at once as the block has threads for
//
// Sums go from threads to the block (in shared memory) to partial sums, which the last block of a
// group adds up in a fixed order.
#include "kernels/cuda/table.h"
#include "kernels/net/columns.cuh"
#include "kernels/net/norm_act_call.h"

namespace sluice::kernels {
namespace {

// The workspace: counters | totals [G, 3, C] | partial sums [G, blocks, 3, C] | parts of
// the answers [G, C].
struct Places {
  unsigned* arrived;  // [groups * tiles], and one for all of them
  double *totals, *parts;
  NormActAnswer* answers;
};
std::int64_t counter_bytes(const NormActCall& c, const Columns& k) {
  return (c.groups * k.tiles + 1 + 63) / 64 * 64 * static_cast<std::int64_t>(sizeof(unsigned));
}
Places places(const NormActCall& c, const Columns& k, void* workspace) {
  auto* base = static_cast<char*>(workspace);
  Places p;
  p.arrived = reinterpret_cast<unsigned*>(base);
  p.totals = reinterpret_cast<double*>(base + counter_bytes(c, k));
  p.parts = p.totals + 3 * c.groups * c.channels;
  p.answers = reinterpret_cast<NormActAnswer*>(p.parts + 3 * c.groups * k.blocks * c.channels);
  return p;
}

__device__ NormActValue value_of(const NormActCall& c, int group, std::int64_t channel) {
  const std::int64_t i = group * c.channels + channel;
  return NormActValue::of(c.mean[i], c.rstd[i], c.gamma ? c.gamma[channel] : 1.0f,
                          c.beta ? c.beta[channel] : 0.0f, c.slope ? *c.slope : 1.0f);
}

template <class T, int V>
__global__ void __launch_bounds__(column_threads)
    statistics(NormActCall c, Columns k, Places p, float* mean, float* variance) {
  __shared__ float held[column_threads * V];
  __shared__ double held_totals[column_threads];
  const Column at = Column::here<V>(c, k, /*backwards=*/true);
  float sums[2][V] = {}, origin[V] = {};
  if (at.row < c.rows) {
    const auto first = load_pack<T, V>(c.x, at.offset(c, 0));
    for (int v = 0; v < V; ++v) origin[v] = to_float(first.v[v]);
  }
  Pack<T, V> x[4];
  at.each_row(
      c, [&](int j, std::int64_t o) { x[j] = load_pack<T, V>(c.x, o); },
      [&](int j, std::int64_t) {
        for (int v = 0; v < V; ++v) {
          const float d = to_float(x[j].v[v]) - origin[v];
          sums[0][v] += d;
          sums[1][v] = mad(d, d, sums[1][v]);
        }
      });
  store_parts<V, 2>(at, c.channels, sums, p.parts, held);
  if (!last_block(&p.arrived[at.group * k.tiles + at.tile], gridDim.x)) return;
  total_parts<V, 2>(at, c.channels, p.parts, p.totals, held_totals);
  for (int i = threadIdx.x; i < at.width * V; i += column_threads) {
    const std::int64_t channel = at.first_channel + i;
    if (channel >= c.channels) continue;
    const double* t = p.totals + 2 * at.group * c.channels + channel;
    const double n = static_cast<double>(c.rows), shift = t[0] / n;
    const double spread = fma(-shift, shift, t[c.channels] / n);
    const auto x0 = static_cast<const T*>(c.x)[at.group * c.rows * c.channels + channel];
    mean[at.group * c.channels + channel] = static_cast<float>(to_float(x0) + shift);
    variance[at.group * c.channels + channel] = static_cast<float>(spread > 0 ? spread : 0);
  }
}

// `Added`: a residual. A condition of the compiler's: with one of the device's, values were stored
// one by one, at a third of the speed (H100).
template <class T, int V, bool Added>
__global__ void __launch_bounds__(column_threads) forward(NormActCall c, Columns k, void* y) {
  const Column at = Column::here<V>(c, k);
  if (at.row >= c.rows) return;
  NormActValue f[V];
  for (int v = 0; v < V; ++v) f[v] = value_of(c, at.group, at.channel + v);
  Pack<T, V> x[4], r[4];
  at.each_row(
      c,
      [&](int j, std::int64_t o) {
        x[j] = load_pack<T, V>(c.x, o);
        if constexpr (Added) r[j] = load_pack<T, V>(c.residual, o);
      },
      [&](int j, std::int64_t o) {
        Pack<T, V> out;
        for (int v = 0; v < V; ++v)
          from_float(f[v].forward(to_float(x[j].v[v]), Added ? to_float(r[j].v[v]) : 0.0f),
                     out.v[v]);
        store_pack(y, o, out);
      });
}

// The parameters' gradients, once every group's totals stand: a thread a channel.
__device__ void parameter_gradients(const NormActCall& c, const double* totals,
                                    const NormActGradients& out, double* held) {
  double slope = 0;
  for (std::int64_t ch = threadIdx.x; ch < c.channels; ch += column_threads) {
    double gamma = 0, beta = 0;
    for (std::int64_t g = 0; g < c.groups; ++g) {
      const double* t = totals + 3 * g * c.channels + ch;
      beta += t[0];
      gamma += t[c.channels] * c.rstd[g * c.channels + ch];
      slope += t[2 * c.channels];
    }
    if (out.gamma) out.gamma[ch] = static_cast<float>(gamma);
    if (out.beta) out.beta[ch] = static_cast<float>(beta);
  }
  slope = block_total(slope, held);
  if (out.slope && threadIdx.x == 0) *out.slope = static_cast<float>(slope);
}

template <class T, int V>
__global__ void __launch_bounds__(column_threads)
    backward_sums(NormActCall c, Columns k, Places p, const void* grad, NormActGradients out) {
  __shared__ float held[column_threads * V];
  __shared__ double held_totals[column_threads];
  const Column at = Column::here<V>(c, k, /*backwards=*/true);
  float sums[3][V] = {};
  if (at.row < c.rows) {
    NormActValue f[V];
    float mean[V];
    NormActSums s[V];
    for (int v = 0; v < V; ++v) {
      f[v] = value_of(c, at.group, at.channel + v);
      mean[v] = c.mean[at.group * c.channels + at.channel + v];
    }
    Pack<T, V> x[4], g[4];
    at.each_row(
        c,
        [&](int j, std::int64_t o) {
          x[j] = load_pack<T, V>(c.x, o);
          g[j] = load_pack<T, V>(grad, o);
        },
        [&](int j, std::int64_t) {
          for (int v = 0; v < V; ++v)
            s[v].add(f[v], to_float(x[j].v[v]), to_float(g[j].v[v]), mean[v]);
        });
    for (int v = 0; v < V; ++v) {
      sums[0][v] = s[v].d;
      sums[1][v] = s[v].dx;
      sums[2][v] = s[v].slope;
    }
  }
  store_parts<V, 3>(at, c.channels, sums, p.parts, held);
  if (!last_block(&p.arrived[at.group * k.tiles + at.tile], gridDim.x)) return;
  total_parts<V, 3>(at, c.channels, p.parts, p.totals, held_totals);
  for (int i = threadIdx.x; i < at.width * V; i += column_threads) {
    const std::int64_t channel = at.first_channel + i, at_group = at.group * c.channels + channel;
    if (channel >= c.channels) continue;
    const double* t = p.totals + 3 * at.group * c.channels + channel;
    p.answers[at_group] =
        c.frozen ? NormActAnswer{}
                 : NormActAnswer::part(t[0], t[c.channels], static_cast<double>(c.rows),
                                       value_of(c, at.group, channel).scale, c.rstd[at_group]);
  }
  if (last_block(&p.arrived[gridDim.y * gridDim.z], gridDim.y * gridDim.z))
    parameter_gradients(c, p.totals, out, held_totals);
}

template <class T, int V>
__global__ void __launch_bounds__(column_threads)
    backward(NormActCall c, Columns k, Places p, const void* grad, void* dx) {
  const Column at = Column::here<V>(c, k);
  if (at.row >= c.rows) return;
  NormActValue f[V];
  float by_x[V], by_1[V];
  for (int v = 0; v < V; ++v) {
    f[v] = value_of(c, at.group, at.channel + v);
    const std::int64_t i = at.group * c.channels + at.channel + v;
    const auto a =
        NormActAnswer::of(p.answers + i - (at.channel + v) % c.together, c.together, c.mean[i]);
    by_x[v] = static_cast<float>(a.by_x);
    by_1[v] = static_cast<float>(a.by_1);
  }
  Pack<T, V> x[4], g[4];
  at.each_row(
      c,
      [&](int j, std::int64_t o) {
        x[j] = load_pack<T, V>(c.x, o);
        g[j] = load_pack<T, V>(grad, o);
      },
      [&](int j, std::int64_t o) {
        Pack<T, V> out;
        for (int v = 0; v < V; ++v)
          from_float(f[v].backward(to_float(x[j].v[v]), to_float(g[j].v[v]), by_x[v], by_1[v]),
                     out.v[v]);
        store_pack(dx, o, out);
      });
}

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }
bool fits(const NormActCall& c) {
  const bool type =
      c.type == VoxelType::f32 || c.type == VoxelType::f16 || c.type == VoxelType::bf16;
  return type && c.groups > 0 && c.groups < 65536 && c.rows > 0 && c.channels > 0 &&
         c.together > 0 && c.channels % c.together == 0;
}
dim3 grid_of(const NormActCall& c, const Columns& k) {
  return {static_cast<unsigned>(k.blocks), static_cast<unsigned>(c.groups),
          static_cast<unsigned>(k.tiles)};
}

template <int V>
struct Width {
  static constexpr int value = V;
};
// Calls f(a value of the type, Width<values of a column>).
template <class F>
int with_columns(const NormActCall& c, const Columns& k, const F& f) {
  if (c.type == VoxelType::f32) return k.packed ? f(float{}, Width<4>{}) : f(float{}, Width<1>{});
  if (c.type == VoxelType::f16) return k.packed ? f(Half{}, Width<8>{}) : f(Half{}, Width<1>{});
  return k.packed ? f(Brain{}, Width<8>{}) : f(Brain{}, Width<1>{});
}

}  // namespace

std::size_t cuda_norm_act_workspace(const NormActCall& c) {
  std::size_t most = 0;
  for (const bool packed : {false, true}) {
    const Columns k = Columns::of(c, packed);
    const std::int64_t sums = 3 * c.groups * c.channels * (1 + static_cast<std::int64_t>(k.blocks));
    const std::int64_t bytes =
        counter_bytes(c, k) + 8 * sums +
        c.groups * c.channels * static_cast<std::int64_t>(sizeof(NormActAnswer));
    most = static_cast<std::size_t>(bytes) > most ? static_cast<std::size_t>(bytes) : most;
  }
  return most;
}

int cuda_norm_statistics(const NormActCall& c, void* workspace, float* mean, float* variance,
                         void* stream) {
  if (!fits(c)) return cudaErrorInvalidValue;
  const Columns k = Columns::of(c, aligned(c.x));
  const Places p = places(c, k, workspace);
  if (const int e = cudaMemsetAsync(p.arrived, 0, static_cast<std::size_t>(counter_bytes(c, k)),
                                    as_stream(stream)))
    return e;
  return with_columns(c, k, [&](auto type, auto width) {
    return launch(statistics<decltype(type), decltype(width)::value>, grid_of(c, k), column_threads,
                  stream, c, k, p, mean, variance);
  });
}

int cuda_norm_act(const NormActCall& c, void* y, void* stream) {
  if (!fits(c)) return cudaErrorInvalidValue;
  const Columns k = Columns::of(c, aligned(c.x) && aligned(y) && aligned(c.residual));
  return with_columns(c, k, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int V = decltype(width)::value;
    return launch(c.residual ? forward<T, V, true> : forward<T, V, false>, grid_of(c, k),
                  column_threads, stream, c, k, y);
  });
}

int cuda_norm_act_backward(const NormActCall& c, void* workspace, const void* grad,
                           const NormActGradients& out, void* stream) {
  if (!fits(c)) return cudaErrorInvalidValue;
  const Columns k = Columns::of(c, aligned(c.x) && aligned(grad) && aligned(out.x));
  const Places p = places(c, k, workspace);
  if (const int e = cudaMemsetAsync(p.arrived, 0, static_cast<std::size_t>(counter_bytes(c, k)),
                                    as_stream(stream)))
    return e;
  return with_columns(c, k, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int V = decltype(width)::value;
    if (const int e =
            launch(backward_sums<T, V>, grid_of(c, k), column_threads, stream, c, k, p, grad, out))
      return e;
    return launch(backward<T, V>, grid_of(c, k), column_threads, stream, c, k, p, grad, out.x);
  });
}

}  // namespace sluice::kernels
