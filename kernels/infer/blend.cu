// Sliding-window blending: a launch a batch of windows over the box that they cover, then one for
// planes that are done. A warp takes a row, so sums are read and written in whole lines.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/infer/blend_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256, warps = threads / warp;

template <class T>
__global__ void __launch_bounds__(threads) accumulate(BlendCall c, BlendBox box) {
  const int ny = box.end[1] - box.begin[1], rows = (box.end[0] - box.begin[0]) * ny;
  for (int r = static_cast<int>(blockIdx.x * warps + threadIdx.x / warp); r < rows;
       r += static_cast<int>(gridDim.x) * warps)
    for (int z = box.begin[2] + static_cast<int>(threadIdx.x % warp); z < box.end[2]; z += warp)
      blend_voxel<T>(c, box.begin[0] + r / ny, box.begin[1] + r % ny, z);
}

__global__ void __launch_bounds__(threads) finish(BlendFinish f) {
  const std::int64_t plane = f.sums.plane(), n = plane * (f.end - f.begin);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = blockIdx.x * threads + threadIdx.x; i < n; i += step)
    finish_voxel(f, f.begin + static_cast<int>(i / plane), i % plane);
}

dim3 enough(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < 4224 ? blocks : 4224);
}

}  // namespace

int cuda_blend(const BlendCall& c, void* stream) {
  if (blend_problem(c)) return cudaErrorInvalidValue;
  const BlendBox box = BlendBox::of(c);
  const std::int64_t rows =
      static_cast<std::int64_t>(box.end[0] - box.begin[0]) * (box.end[1] - box.begin[1]);
  const dim3 grid = enough((rows + warps - 1) / warps);
  if (c.type == VoxelType::f32) return launch(accumulate<float>, grid, threads, stream, c, box);
  if (c.type == VoxelType::f16) return launch(accumulate<Half>, grid, threads, stream, c, box);
  if (c.type == VoxelType::bf16) return launch(accumulate<Brain>, grid, threads, stream, c, box);
  return cudaErrorInvalidValue;
}

int cuda_blend_finish(const BlendFinish& f, void* stream) {
  if (blend_problem(f)) return cudaErrorInvalidValue;
  const std::int64_t n = f.sums.plane() * (f.end - f.begin);
  return n == 0 ? static_cast<int>(cudaSuccess)
                : launch(finish, enough((n + threads - 1) / threads), threads, stream, f);
}

}  // namespace sluice::kernels
