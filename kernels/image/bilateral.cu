// The bilateral filters and their gradients: a thread a voxel. Threads of a warp are neighbours in
// a row, so what they read of a neighbour lies together.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/bilateral_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256;

template <bool backward>
__global__ void __launch_bounds__(threads) filter(BilateralCall<float> c) {
  const std::int64_t n = c.voxels(), step = static_cast<std::int64_t>(gridDim.x) * threads;
  float held[bilateral_most];
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < n;
       i += step) {
    const std::int64_t p = c.cell(i / (c.of[1] * c.of[2]), i / c.of[2] % c.of[1], i % c.of[2]);
    if (backward)
      bilateral_slopes<float, 1>(c, p, held);
    else
      bilateral_sums<float, 1>(c, p, held);
    bilateral_store<float, 1>(c, i, 1, held, backward);
  }
}

}  // namespace

int cuda_bilateral(const BilateralCall<float>& c, bool backward, void* stream) {
  const std::int64_t n = c.voxels(), blocks = (n + threads - 1) / threads;
  if (n < 0 || 4 + c.channels + c.guides > bilateral_most) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  return launch(backward ? filter<true> : filter<false>,
                static_cast<unsigned>(blocks < 65536 ? blocks : 65536), threads, stream, c);
}

}  // namespace sluice::kernels
