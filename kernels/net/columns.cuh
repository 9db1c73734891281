// Channels-last memory [groups, rows, channels] divided among threads: each owns the channels of
// one column of up to 16 bytes and walks down the rows. See norm_act.cu.
//
// Invariant: the division follows from sizes and alignment alone, so sums are always formed in the
// same order.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/net/norm_act_call.h"

namespace sluice::kernels {

inline constexpr int column_threads = 256;

template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

struct Columns {
  bool packed;              // columns of 16 bytes; else of one value
  int width;                // columns of a tile
  int tiles, rows, blocks;  // tiles across the channels; rows at once; blocks of a group and tile

  static Columns of(const NormActCall& c, bool aligned) {
    const int values = static_cast<int>(16 / voxel_bytes(c.type));
    Columns k;
    k.packed = aligned && c.channels % values == 0;
    const std::int64_t columns = k.packed ? c.channels / values : c.channels;
    k.width = static_cast<int>(columns < column_threads ? columns : column_threads);
    k.tiles = static_cast<int>((columns + k.width - 1) / k.width);
    k.rows = column_threads / k.width;
    const std::int64_t wanted = (c.rows + 4 * k.rows - 1) / (4 * k.rows);
    // As many as are at work at once, since each adds up its sums: registers are for two blocks on
    // each of 132 processors.
    std::int64_t most = 264 / (c.groups * k.tiles);
    most = most < 1 ? 1 : most;
    k.blocks = static_cast<int>(wanted < most ? wanted : most);
    return k;
  }
};

// This thread's column. Idle threads have no rows.
struct Column {
  int group, tile, width, rows;
  std::int64_t first_channel, channel;  // of the tile, of the column
  std::int64_t row, stride;             // its first row, and from one to the next

  // `backwards`: the last group first. What was written before is then still in the cache, and what
  // the next pass reads first will be.
  template <int V>
  static __device__ Column here(const NormActCall& c, const Columns& k, bool backwards = false) {
    Column at;
    at.group = static_cast<int>(backwards ? gridDim.y - 1 - blockIdx.y : blockIdx.y);
    at.tile = static_cast<int>(blockIdx.z);
    at.width = k.width;
    at.rows = k.rows;
    const int column = static_cast<int>(threadIdx.x) % k.width;
    const int row = static_cast<int>(threadIdx.x) / k.width;
    at.first_channel = static_cast<std::int64_t>(at.tile) * k.width * V;
    at.channel = at.first_channel + column * V;
    at.stride = static_cast<std::int64_t>(gridDim.x) * k.rows;
    at.row = static_cast<std::int64_t>(blockIdx.x) * k.rows + row;
    if (row >= k.rows || at.channel >= c.channels) at.row = c.rows;
    return at;
  }
  __device__ std::int64_t offset(const NormActCall& c, std::int64_t r) const {
    return (group * c.rows + r) * c.channels + channel;
  }
  // Calls body(offset of a row) in fours: `load` for all four, then `use`.
  template <class Load, class Use>
  __device__ void each_row(const NormActCall& c, const Load& load, const Use& use) const {
    for (std::int64_t r = row; r < c.rows; r += 4 * stride) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (r + j * stride < c.rows) load(j, offset(c, r + j * stride));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (r + j * stride < c.rows) use(j, offset(c, r + j * stride));
    }
  }
};

template <class T, int V>
__device__ inline Pack<T, V> load_pack(const void* p, std::int64_t offset) {
  return *reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(p) + offset);
}
template <class T, int V>
__device__ inline void store_pack(void* p, std::int64_t offset, const Pack<T, V>& v) {
  *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(p) + offset) = v;
}

// Adds up what the threads of a column hold, K sums for each of its V channels, to
// parts[group][block][K][channels]. `held` has column_threads * V places.
template <int V, int K>
__device__ inline void store_parts(const Column& at, std::int64_t channels, float (&sums)[K][V],
                                   double* parts, float* held) {
  double* part =
      parts + (static_cast<std::int64_t>(at.group) * gridDim.x + blockIdx.x) * K * channels;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) held[threadIdx.x * V + v] = sums[k][v];
    __syncthreads();
    for (int i = threadIdx.x; i < at.width * V; i += column_threads) {
      if (at.first_channel + i >= channels) continue;
      double sum = 0;
      for (int r = 0; r < at.rows; ++r) sum += held[r * at.width * V + i];
      part[k * channels + at.first_channel + i] = sum;
    }
  }
}

// The sums over all of a group's blocks, to totals[group][K][channels], several threads a channel
// where there are enough. `held` has column_threads places.
template <int V, int K>
__device__ inline void total_parts(const Column& at, std::int64_t channels, const double* parts,
                                   double* totals, double* held) {
  const int width = at.width * V, part = width < column_threads ? width : column_threads;
  const int several = column_threads / part, share = static_cast<int>(threadIdx.x) / part;
  const double* mine = parts + static_cast<std::int64_t>(at.group) * gridDim.x * K * channels;
  for (int k = 0; k < K; ++k)
    for (int base = 0; base < width; base += part) {
      const int i = base + static_cast<int>(threadIdx.x) % part;
      const std::int64_t channel = at.first_channel + i;
      const bool active = share < several && i < width && channel < channels;
      double sum = 0;
      if (active) {
#pragma unroll 4
        for (int b = share; b < static_cast<int>(gridDim.x); b += several)
          sum += mine[(static_cast<std::int64_t>(b) * K + k) * channels + channel];
      }
      __syncthreads();
      held[threadIdx.x] = sum;
      __syncthreads();
      if (!active || share != 0) continue;
      for (int s = 1; s < several; ++s) sum += held[threadIdx.x + s * part];
      totals[(static_cast<std::int64_t>(at.group) * K + k) * channels + channel] = sum;
    }
  __syncthreads();
}

}  // namespace sluice::kernels
