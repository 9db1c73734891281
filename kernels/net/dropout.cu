// Dropout of single elements: dropout_value.h, four positions a thread.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/net/dropout_value.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256;

// The k-th group of four positions. Where channels are last, neighbouring threads take neighbouring
// channels, if no group reaches from one channel into the next.
__device__ inline std::int64_t group(const DropoutCall& c, std::int64_t k) {
  if (!c.channels_last || c.voxels % 4 != 0) return 4 * k;
  return k % c.channels * c.voxels + k / c.channels * 4;
}

template <class T>
__global__ void __launch_bounds__(threads) drop(DropoutRule rule, DropoutCall c) {
  const std::int64_t size = c.channels * c.voxels, groups = (size + 3) / 4;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t n = blockIdx.y; n < c.members; n += gridDim.y) {
    const T* x = static_cast<const T*>(c.x) + n * size;
    T* y = static_cast<T*>(c.y) + n * size;
    for (std::int64_t k = blockIdx.x * std::int64_t{threads} + threadIdx.x; k < groups; k += step) {
      const std::int64_t first = group(c, k);
      const Block4 draws = rule.draws(n, first);
      for (int j = 0; j < 4 && first + j < size; ++j) {
        const std::int64_t i = first + j;
        const std::int64_t at = c.channels_last ? i % c.voxels * c.channels + i / c.voxels : i;
        from_float(to_float(x[at]) * rule.factor(draws.v[j]), y[at]);
      }
    }
  }
}

}  // namespace

int cuda_dropout(const DropoutRule& rule, const DropoutCall& call, VoxelType type, void* stream) {
  const std::int64_t blocks = (call.channels * call.voxels / 4 + threads) / threads;
  const dim3 grid(static_cast<unsigned>(blocks < 4224 ? blocks : 4224),
                  static_cast<unsigned>(call.members < 1024 ? call.members : 1024));
  if (call.members < 1) return cudaSuccess;
  switch (type) {
    case VoxelType::f32:
      return launch(drop<float>, grid, threads, stream, rule, call);
    case VoxelType::f16:
      return launch(drop<Half>, grid, threads, stream, rule, call);
    case VoxelType::bf16:
      return launch(drop<Brain>, grid, threads, stream, rule, call);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace sluice::kernels
