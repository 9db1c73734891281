// The median filter and its gradient: a thread a voxel, which holds half of a window.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/median_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 128;

template <int Held>
__global__ void __launch_bounds__(threads) median(MedianCall<float> c) {
  float held[Held];
  each_item(c.voxels(), [&](std::int64_t i) { median_of<float, 1>(c, i, held); });
}
__global__ void __launch_bounds__(threads) choose(MedianCall<float> c) {
  each_item(c.voxels(), [&](std::int64_t i) { median_choose(c, i); });
}
__global__ void __launch_bounds__(threads) gather(MedianCall<float> c) {
  each_item(c.cells(), [&](std::int64_t i) { median_gather(c, i); });
}

}  // namespace

int cuda_median(const MedianCall<float>& c, MedianWork work, void* stream) {
  const std::int64_t n = work == MedianWork::gather ? c.cells() : c.voxels(),
                     held = median_held(c.count());
  if (n < 0 || c.count() < 1 || held > 512) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  auto* kernel = work == MedianWork::choose   ? choose
                 : work == MedianWork::gather ? gather
                 : held <= 16                 ? median<16>  // 3 x 3 x 3
                 : held <= 64                 ? median<64>  // 5 x 5 x 5
                                              : median<512>;
  return launch(kernel, blocks_for(n, threads), threads, stream, c);
}

}  // namespace sluice::kernels
