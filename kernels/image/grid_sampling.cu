// The resampler: a thread a point where the image is read. Where it is added to, a thread a line of
// the image and its uses, so that each voxel's sum has the host's order in every run.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/grid_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 128;

template <int K, int N>
__global__ void __launch_bounds__(threads) read(GridCall c) {
  each_item(c.batch * c.points,
            [&](std::int64_t i) { grid_read<float, K, N>(c, i / c.points, i % c.points); });
}

template <int N>
__global__ void __launch_bounds__(threads) use(GridCall c, GridUses uses) {
  each_item(uses.end - uses.begin, [&](std::int64_t i) { grid_use<N>(c, uses, uses.begin + i); });
}

template <int K, int N>
__global__ void __launch_bounds__(threads) add(GridCall c, GridUses uses) {
  const std::int64_t lines = c.batch * c.lines();
  each_item(lines * c.channels,
            [&](std::int64_t i) { grid_add_line<K, N>(c, uses, i % lines, i / lines); });
}

bool fits(const GridCall& c, bool adds) {
  return c.batch >= 0 && c.points >= 0 && c.axes >= 1 && c.axes <= 3 && c.adds() == adds &&
         (!adds || c.batch * c.lines() < std::int64_t{1} << 31);
}

}  // namespace

int cuda_grid(const GridCall& c, void* stream) {
  if (!fits(c, false)) return cudaErrorInvalidValue;
  if (c.batch * c.points == 0) return cudaSuccess;
  return with_grid(c, [&](auto derivatives, auto nodes) {
    constexpr int K = decltype(derivatives)::value, N = decltype(nodes)::value;
    return launch(read<K, N>, blocks_for(c.batch * c.points, threads), threads, stream, c);
  });
}

int cuda_grid_uses(const GridCall& c, const GridUses& uses, void* stream) {
  if (!fits(c, true)) return cudaErrorInvalidValue;
  if (uses.count(c) == 0) return cudaSuccess;
  return with_grid(c, [&](auto, auto nodes) {
    constexpr int N = decltype(nodes)::value;
    return launch(use<N>, blocks_for(uses.end - uses.begin, threads), threads, stream, c, uses);
  });
}

int cuda_grid_add(const GridCall& c, const GridUses& uses, void* stream) {
  if (!fits(c, true)) return cudaErrorInvalidValue;
  if (uses.count(c) == 0) return cudaSuccess;
  return with_grid(c, [&](auto derivatives, auto nodes) -> int {
    constexpr int K = decltype(derivatives)::value, N = decltype(nodes)::value;
    if constexpr (K < 2)
      return launch(add<K, N>, blocks_for(c.batch * c.lines() * c.channels, threads), threads,
                    stream, c, uses);
    return cudaErrorInvalidValue;
  });
}

}  // namespace sluice::kernels
