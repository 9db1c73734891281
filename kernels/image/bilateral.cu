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
  float held[bilateral_most];
  each_item(c.voxels(), [&](std::int64_t i) {
    const std::int64_t p = c.cell(i / (c.of[1] * c.of[2]), i / c.of[2] % c.of[1], i % c.of[2]);
    if (backward)
      bilateral_slopes<float, 1>(c, p, held);
    else
      bilateral_sums<float, 1>(c, p, held);
    bilateral_store<float, 1>(c, i, 1, held, backward);
  });
}

}  // namespace

int cuda_bilateral(const BilateralCall<float>& c, bool backward, void* stream) {
  const std::int64_t n = c.voxels();
  if (n < 0 || 4 + c.channels + c.guides > bilateral_most) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  return launch(backward ? filter<true> : filter<false>, blocks_for(n, threads), threads, stream,
                c);
}

}  // namespace sluice::kernels
