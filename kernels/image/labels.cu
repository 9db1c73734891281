// What is done with labels on the device: bit masks of foreground and background, drawing voxels
// from them, and one-hot vectors.
#include "kernels/base/bit_mask.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256;

// A warp makes a word at a time and a block's 32 words in turn: one block of the directory.
__global__ void __launch_bounds__(threads)
    set_words(BitRule rule, std::uint32_t* words, std::uint32_t* ranks) {
  const int lane = static_cast<int>(threadIdx.x % warp);
  const std::int64_t block = blockIdx.x * (threads / warp) + threadIdx.x / warp;
  if (block >= bit_blocks(rule.voxels)) return;  // the same for a whole warp
  std::uint32_t count = 0;
  for (int w = 0; w < bit_block; ++w) {
    const std::int64_t at = block * bit_block + w;
    if (at >= bit_words(rule.voxels)) break;
    const unsigned word = __ballot_sync(all_lanes, rule(at * 32 + lane) ? 1 : 0);
    if (lane == 0) words[at] = word;
    count += BitMask::set_bits(word);
  }
  if (lane == 0) ranks[block + 1] = count;
}

// The counts become ranks: one block walks over them, `threads` at a time.
__global__ void __launch_bounds__(threads) add_up(std::uint32_t* ranks, std::int64_t n) {
  __shared__ std::uint32_t of_warp[threads / warp];
  const int lane = static_cast<int>(threadIdx.x % warp), w = static_cast<int>(threadIdx.x / warp);
  std::uint32_t before = 0;
  if (threadIdx.x == 0) ranks[0] = 0;
  for (std::int64_t base = 1; base <= n; base += threads) {
    const std::int64_t i = base + threadIdx.x;
    std::uint32_t sum = i <= n ? ranks[i] : 0;
    for (int o = 1; o < warp; o *= 2) {
      const std::uint32_t left = __shfl_sync(all_lanes, sum, lane >= o ? lane - o : lane);
      if (lane >= o) sum += left;
    }
    __syncthreads();
    if (lane == warp - 1) of_warp[w] = sum;
    __syncthreads();
    std::uint32_t all = 0, front = 0;
    for (int k = 0; k < threads / warp; ++k) {
      if (k < w) front += of_warp[k];
      all += of_warp[k];
    }
    if (i <= n) ranks[i] = before + front + sum;
    before += all;
  }
}

__global__ void __launch_bounds__(threads) draw(BitDraw draw_, int count, std::int64_t* voxels) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (i < count) voxels[i] = draw_(static_cast<std::uint64_t>(i));
}

template <class T>
__global__ void __launch_bounds__(threads)
    one_hot(const std::uint8_t* label, std::int64_t voxels, int classes, T* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = blockIdx.x * threads + threadIdx.x; i < voxels; i += step)
    for (int c = 0; c < classes; ++c) from_float(label[i] == c ? 1.0f : 0.0f, out[c * voxels + i]);
}

dim3 enough(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < 4224 ? blocks : 4224);
}

}  // namespace

int cuda_bits(const BitRule& rule, std::uint32_t* words, std::uint32_t* ranks, void* stream) {
  if (rule.voxels < 1 || rule.voxels >= (std::int64_t{1} << 31) || !rule.label)
    return cudaErrorInvalidValue;
  const std::int64_t n = bit_blocks(rule.voxels), each = threads / warp;
  if (const int e = launch(set_words, dim3(static_cast<unsigned>((n + each - 1) / each)), threads,
                           stream, rule, words, ranks))
    return e;
  return launch(add_up, dim3(1), threads, stream, ranks, n);
}

int cuda_draw(const BitDraw& d, int count, std::int64_t* voxels, void* stream) {
  if (count < 1) return cudaSuccess;
  return launch(draw, dim3(static_cast<unsigned>((count + threads - 1) / threads)), threads, stream,
                d, count, voxels);
}

int cuda_one_hot(const std::uint8_t* label, std::int64_t voxels, int classes, VoxelType type,
                 void* out, void* stream) {
  const dim3 grid = enough((voxels + threads - 1) / threads);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return launch(one_hot<T>, grid, threads, stream, label, voxels, classes, static_cast<T*>(out));
  };
  switch (type) {
    case VoxelType::f32:
      return run(float{});
    case VoxelType::f16:
      return run(Half{});
    case VoxelType::bf16:
      return run(Brain{});
    case VoxelType::i16:
      return run(std::int16_t{});
    default:
      return run(std::uint8_t{});
  }
}

}  // namespace sluice::kernels
