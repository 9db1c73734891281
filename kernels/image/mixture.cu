// Classes' shares by a mixture of Gaussians: a thread a voxel.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/mixture_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256, most_colours = 32;

__global__ void __launch_bounds__(threads) shares(MixtureCall<float> c) {
  float scratch[1 + most_colours];
  each_item(c.n, [&](std::int64_t i) { mixture_shares<float, 1>(c, i, scratch, c.out + i, c.n); });
}

}  // namespace

int cuda_mixture(const MixtureCall<float>& c, void* stream) {
  if (c.n < 0 || c.colours < 1 || c.colours > most_colours) return cudaErrorInvalidValue;
  if (c.n == 0) return cudaSuccess;
  return launch(shares, blocks_for(c.n, threads), threads, stream, c);
}

}  // namespace sluice::kernels
