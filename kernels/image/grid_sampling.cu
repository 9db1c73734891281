// The resampler: a thread a point where the image is read. Where it is added to, a thread a row of
// planes goes over all points, so that each voxel's sum has the host's order in every run.
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

template <int K, int N>
__global__ void __launch_bounds__(threads) add(GridCall c) {
  each_item(c.batch * c.shape[0], [&](std::int64_t r) {
    const std::int64_t b = r / c.shape[0], row = r % c.shape[0];
    for (std::int64_t i = 0; i < c.points; ++i) grid_add<float, K, N>(c, b, i, row, row + 1);
  });
}

}  // namespace

int cuda_grid(const GridCall& c, void* stream) {
  const bool adds = c.work == GridWork::add || c.work == GridWork::add_slope;
  const std::int64_t n = c.batch * (adds ? c.shape[0] : c.points);
  if (n < 0 || c.axes < 1 || c.axes > 3) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  const dim3 grid = blocks_for(n, threads);
  return with_grid(c, [&](auto derivatives, auto nodes) -> int {
    constexpr int K = decltype(derivatives)::value, N = decltype(nodes)::value;
    if constexpr (K < 2)
      if (adds) return launch(add<K, N>, grid, threads, stream, c);
    return launch(read<K, N>, grid, threads, stream, c);
  });
}

}  // namespace sluice::kernels
