// Thin convolutions: a thread a column of four voxels, whose neighbours along x are its warp's. The
// weight's gradient: a thread adds up all taps of a plane of the kernel for its voxels; sums go
// from threads to blocks, to the last of them, in a fixed order.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/net/thin_conv_call.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 128;
constexpr unsigned blocks = 16 * 132;        // each reads the weights
constexpr unsigned blocks_of_a_plane = 132;  // each adds up its sums

template <class T, int C>
__global__ void __launch_bounds__(threads) forward(ThinConvCall c, std::uint32_t columns) {
  __shared__ float weights[27 * C * C];
  for (int i = static_cast<int>(threadIdx.x); i < c.depth * 9 * C * C; i += threads)
    weights[i] = thin_weight<T, C>(c, i);
  __syncthreads();
  each_item(columns,
            [&](std::int64_t i) { thin_column<T, C>(c, weights, static_cast<std::uint32_t>(i)); });
}

// The workspace: counters [depth], then sums [depth][block][9 C C].
constexpr std::size_t counter_bytes = 64;

template <class T, int C>
__global__ void __launch_bounds__(threads)
    weight_grad(ThinConvCall c, const void* grad, unsigned* arrived, float* sums, float* out) {
  constexpr int n = 9 * C * C;
  __shared__ float held[threads / warp][n];
  const int kz = static_cast<int>(blockIdx.y);
  float sum[n] = {};
  each_item(c.voxels(), [&](std::int64_t i) {
    thin_add<T, C>(c, grad, kz, static_cast<std::uint32_t>(i), sum);
  });
#pragma unroll
  for (int i = 0; i < n; ++i) {
    for (int o = warp / 2; o > 0; o /= 2) sum[i] += shuffle_down(sum[i], o);
    if (threadIdx.x % warp == 0) held[threadIdx.x / warp][i] = sum[i];
  }
  __syncthreads();
  sums += static_cast<std::int64_t>(kz) * gridDim.x * n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += threads) {
    float total = 0;
    for (int w = 0; w < threads / warp; ++w) total += held[w][i];
    sums[static_cast<std::int64_t>(blockIdx.x) * n + i] = total;
  }
  if (!last_block(&arrived[kz], gridDim.x)) return;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += threads) {
    double total = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) total += sums[static_cast<std::int64_t>(b) * n + i];
    const int tap = i / (C * C), o = i / C % C, in = i % C;
    out[((o * C + in) * c.depth + kz) * 9 + tap] = static_cast<float>(total);
  }
}

bool fits(const ThinConvCall& c) {
  return (c.type == VoxelType::f16 || c.type == VoxelType::bf16) && c.channels >= 1 &&
         c.channels <= thin_most && (c.depth == 1 || c.depth == 3) && c.voxels() > 0 &&
         c.voxels() * c.channels < std::int64_t{1} << 31;
}

template <int C>
using Channels = std::integral_constant<int, C>;
// f(a value of the type, Channels<so many>).
template <class F>
int with_channels(const ThinConvCall& c, const F& f) {
  const auto of = [&](auto type) {
    return c.channels == 1   ? f(type, Channels<1>{})
           : c.channels == 2 ? f(type, Channels<2>{})
           : c.channels == 3 ? f(type, Channels<3>{})
                             : f(type, Channels<4>{});
  };
  return c.type == VoxelType::f16 ? of(Half{}) : of(Brain{});
}

}  // namespace

int cuda_thin_conv(const ThinConvCall& c, void* stream) {
  if (!fits(c)) return cudaErrorInvalidValue;
  const std::uint32_t columns = thin_columns(c);
  const unsigned grid = std::min(blocks_for(columns, threads), blocks);
  return with_channels(c, [&](auto type, auto channels) {
    constexpr int C = decltype(channels)::value;
    return launch(forward<decltype(type), C>, grid, threads, stream, c, columns);
  });
}

std::size_t cuda_thin_conv_workspace(const ThinConvCall& c) {
  const auto sums = static_cast<std::size_t>(9 * c.channels * c.channels * c.depth);
  return counter_bytes + sums * blocks_of_a_plane * sizeof(float);
}

int cuda_thin_conv_weight_grad(const ThinConvCall& c, const void* grad, void* workspace, float* out,
                               void* stream) {
  if (!fits(c)) return cudaErrorInvalidValue;
  if (const int e = cudaMemsetAsync(workspace, 0, counter_bytes, as_stream(stream))) return e;
  auto* const arrived = static_cast<unsigned*>(workspace);
  auto* const sums = reinterpret_cast<float*>(static_cast<char*>(workspace) + counter_bytes);
  const dim3 grid{std::min(blocks_for(c.voxels(), threads), blocks_of_a_plane),
                  static_cast<unsigned>(c.depth), 1};
  return with_channels(c, [&](auto type, auto channels) {
    constexpr int C = decltype(channels)::value;
    return launch(weight_grad<decltype(type), C>, grid, threads, stream, c, grad, arrived, sums,
                  out);
  });
}

}  // namespace sluice::kernels
