// DiceCE: the forward pass is one launch (the last block to finish makes the loss of the sums), the
// backward pass another. Nothing comes back to the host.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/loss/dice_ce_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256;
constexpr int most_blocks = 512;  // a sample

// The workspace: what the blocks tell each other, then what the backward pass reads.
struct State {
  unsigned arrived;
  float ce;
};

std::int64_t blocks_of(const DiceCeBatch& b) {
  const std::int64_t wanted = (b.voxels + 4 * threads - 1) / (4 * threads);
  return wanted < most_blocks ? wanted : most_blocks;
}
std::int64_t slopes_at() { return 256; }
std::int64_t totals_at(const DiceCeBatch& b) {
  return slopes_at() + b.samples * static_cast<std::int64_t>(sizeof(DiceCeSlopes));
}
std::int64_t parts_at(const DiceCeBatch& b, int classes) {
  return totals_at(b) + b.samples * dice_width(classes) * 8;
}

struct Places {
  State* state;
  DiceCeSlopes* slopes;
  double *totals, *parts;  // [groups][width], [samples][blocks][width]
};

// Adds every block's parts up, a thread a sum, and makes loss and slopes of them.
__device__ void finish(const DiceCeRule& r, const DiceCeBatch& b, const Places& at, int blocks,
                       float* loss) {
  const int width = dice_width(r.classes);
  const int groups = r.batch ? 1 : static_cast<int>(b.samples);
  const int each = static_cast<int>(b.samples) / groups * blocks;  // parts of a group
  for (int i = threadIdx.x / warp; i < groups * width; i += threads / warp) {
    const double* part = at.parts + static_cast<std::int64_t>(i / width) * each * width + i % width;
    double sum = 0;
    for (int k = threadIdx.x % warp; k < each; k += warp) sum += part[k * width];
    for (int o = warp / 2; o > 0; o /= 2) sum += shuffle_down(sum, o);
    if (threadIdx.x % warp == 0) at.totals[i] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const DiceCeTotal total = dice_ce_finish(r, at.totals, groups, at.slopes);
  at.state->ce = static_cast<float>(total.ce);
  *loss = static_cast<float>(total.loss);
}

template <class T, int M>
__global__ void __launch_bounds__(threads)
    forward(DiceCeRule r, DiceCeBatch b, Places at, float* loss) {
  __shared__ double held[threads / warp];
  const std::int64_t n = blockIdx.y;
  const auto* z = static_cast<const T*>(b.logits) + n * b.sample_stride;
  const std::uint8_t* label = b.label + n * b.voxels;
  float sums[3 * M + 1] = {};
  for (std::int64_t i = blockIdx.x * threads + threadIdx.x; i < b.voxels;
       i += static_cast<std::int64_t>(gridDim.x) * threads) {
    DiceCeVoxel<M> v;
    v.load(z + i * b.voxel_stride, b.class_stride, r.classes, label[i]);
    v.add_to(sums, r);
  }
  double* part = at.parts + (n * gridDim.x + blockIdx.x) * dice_width(r.classes);
#pragma unroll(M <= 8 ? 3 * M + 1 : 1)
  for (int k = 0; k < 3 * M + 1; ++k) {
    const int c = k % M;
    if (k < 3 * M && c >= r.classes) continue;  // the same for all threads
    const double sum = block_total(static_cast<double>(sums[k]), held);
    if (threadIdx.x == 0) part[k == 3 * M ? 3 * r.classes : k / M * r.classes + c] = sum;
  }
  if (last_block(&at.state->arrived, gridDim.x * gridDim.y))
    finish(r, b, at, static_cast<int>(gridDim.x), loss);
}

template <class T, int M>
__global__ void __launch_bounds__(threads)
    backward(DiceCeRule r, DiceCeBatch b, Places at, const float* grad_loss, T* grad) {
  __shared__ float by_i[M], by_p[M];
  const std::int64_t n = blockIdx.y;
  const float scale = *grad_loss, ce = at.state->ce * scale;
  const DiceCeSlopes& slopes = at.slopes[r.batch ? 0 : n];
  if (threadIdx.x < static_cast<unsigned>(r.classes)) {
    by_i[threadIdx.x] = slopes.by_i[threadIdx.x] * scale;
    by_p[threadIdx.x] = slopes.by_p[threadIdx.x] * scale;
  }
  __syncthreads();
  const auto* z = static_cast<const T*>(b.logits) + n * b.sample_stride;
  T* out = grad + n * b.sample_stride;
  const std::uint8_t* label = b.label + n * b.voxels;
  for (std::int64_t i = blockIdx.x * threads + threadIdx.x; i < b.voxels;
       i += static_cast<std::int64_t>(gridDim.x) * threads) {
    DiceCeVoxel<M> v;
    v.load(z + i * b.voxel_stride, b.class_stride, r.classes, label[i]);
    v.to_gradient(r, by_i, by_p, ce);
    for (int c = 0; c < M; ++c)
      if (c < r.classes) from_float(v.p[c], out[i * b.voxel_stride + c * b.class_stride]);
  }
}

Places places(const DiceCeRule& r, const DiceCeBatch& b, void* workspace) {
  auto* base = static_cast<char*>(workspace);
  return {reinterpret_cast<State*>(base), reinterpret_cast<DiceCeSlopes*>(base + slopes_at()),
          reinterpret_cast<double*>(base + totals_at(b)),
          reinterpret_cast<double*>(base + parts_at(b, r.classes))};
}

bool fits(const DiceCeRule& r, const DiceCeBatch& b) {
  const bool logits =
      b.type == VoxelType::f32 || b.type == VoxelType::f16 || b.type == VoxelType::bf16;
  return logits && r.classes > 1 && r.classes <= dice_classes && b.samples > 0 &&
         b.samples < 65536 && b.voxels > 0;
}

template <class F>
int with_types(const DiceCeRule& r, const DiceCeBatch& b, const F& f) {
  int error = cudaErrorInvalidValue;
  with_classes(r.classes, [&](auto voxel) {
    if (b.type == VoxelType::f32) error = f(float{}, voxel);
    if (b.type == VoxelType::f16) error = f(Half{}, voxel);
    if (b.type == VoxelType::bf16) error = f(Brain{}, voxel);
  });
  return error;
}

}  // namespace

std::size_t cuda_dice_ce_workspace(const DiceCeRule& r, const DiceCeBatch& b) {
  return static_cast<std::size_t>(parts_at(b, r.classes) +
                                  b.samples * blocks_of(b) * dice_width(r.classes) * 8);
}

int cuda_dice_ce(const DiceCeRule& r, const DiceCeBatch& b, void* workspace, float* loss,
                 void* stream) {
  if (!fits(r, b)) return cudaErrorInvalidValue;
  const Places at = places(r, b, workspace);
  if (const int e = cudaMemsetAsync(at.state, 0, sizeof(State), as_stream(stream))) return e;
  const dim3 grid(static_cast<unsigned>(blocks_of(b)), static_cast<unsigned>(b.samples));
  return with_types(r, b, [&](auto type, auto voxel) {
    constexpr int M = decltype(voxel)::size;
    return launch(forward<decltype(type), M>, grid, threads, stream, r, b, at, loss);
  });
}

int cuda_dice_ce_backward(const DiceCeRule& r, const DiceCeBatch& b, void* workspace,
                          const float* grad_loss, void* grad, void* stream) {
  if (!fits(r, b)) return cudaErrorInvalidValue;
  const Places at = places(r, b, workspace);
  const dim3 grid(static_cast<unsigned>(blocks_of(b)), static_cast<unsigned>(b.samples));
  return with_types(r, b, [&](auto type, auto voxel) {
    using T = decltype(type);
    constexpr int M = decltype(voxel)::size;
    return launch(backward<T, M>, grid, threads, stream, r, b, at, grad_loss,
                  static_cast<T*>(grad));
  });
}

}  // namespace sluice::kernels
