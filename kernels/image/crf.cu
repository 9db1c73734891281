// A random field's update and its gradient: a thread a voxel.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/crf_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256;

template <bool backward>
__global__ void __launch_bounds__(threads) update(CrfCall<float> c) {
  each_item(c.members * c.n, [&](std::int64_t i) {
    backward ? crf_slope<float, 1>(c, i) : crf_update<float, 1>(c, i);
  });
}

}  // namespace

int cuda_crf(const CrfCall<float>& c, bool backward, void* stream) {
  const std::int64_t n = c.members * c.n;
  if (n < 0 || c.classes < 1) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  return launch(backward ? update<true> : update<false>, blocks_for(n, threads), threads, stream,
                c);
}

}  // namespace sluice::kernels
