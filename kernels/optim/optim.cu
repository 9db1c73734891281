// All tensors of a network in two launches: one sums the gradients' squares and decides (unscaling,
// clipping, whether to skip), one updates. Tensors are cut into chunks of equal size, so that large
// and small ones share the device evenly.
#include <cstring>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/optim/optim_value.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 256;
constexpr std::int64_t chunk = 16384;  // weights

struct Chunk {
  std::int32_t tensor, first_of_tensor;  // the number of the tensor's first chunk
  std::int64_t begin, end;
};

// What `optim_plan` writes: this header, the tensors, the chunks; then room for sums and scales.
struct Plan {
  std::int32_t tensors, chunks;
  unsigned arrived;
  std::int32_t pad;
  std::int64_t tensors_at, chunks_at, sums_at, scales_at;
};

std::int64_t chunks_of(std::int64_t n) { return (n + chunk - 1) / chunk; }

Plan plan_of(const OptimTensor* t, int count) {
  Plan p{count, 0, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < count; ++i) p.chunks += static_cast<std::int32_t>(chunks_of(t[i].size));
  const auto up = [](std::int64_t n) { return (n + 63) / 64 * 64; };
  p.tensors_at = up(sizeof(Plan));
  p.chunks_at = p.tensors_at + up(count * static_cast<std::int64_t>(sizeof(OptimTensor)));
  p.sums_at = p.chunks_at + up(p.chunks * static_cast<std::int64_t>(sizeof(Chunk)));
  p.scales_at = p.sums_at + up(p.chunks * 8);
  return p;
}
std::int64_t bytes_of(const Plan& p) { return p.scales_at + (p.tensors * 4 + 63) / 64 * 64; }

template <class T>
__device__ T* at(void* plan, std::int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(plan) + offset);
}

template <class T>
__device__ double square_sum(const T* g, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += threads) {
    const double v = to_float(g[i]);
    sum = fma(v, v, sum);
  }
  return sum;
}

// The last block's part: sums by tensor (in the chunks' order), the decision, Novograd's scales.
__device__ void conclude(void* plan, const OptimRule& r, OptimState* state, double* held) {
  const Plan& p = *static_cast<const Plan*>(plan);
  const double* sums = at<double>(plan, p.sums_at);
  double mine = 0;
  for (int i = threadIdx.x; i < p.chunks; i += threads) mine += sums[i];
  const double all = block_total(mine, held);
  if (threadIdx.x == 0) decide(r, all, *state);
  __syncthreads();
  if (r.kind != OptimKind::novograd || state->skip) return;
  const auto* tensors = at<OptimTensor>(plan, p.tensors_at);
  const auto* chunks = at<Chunk>(plan, p.chunks_at);
  float* scales = at<float>(plan, p.scales_at);
  for (int c = threadIdx.x; c < p.chunks; c += threads) {
    if (chunks[c].first_of_tensor != c) continue;
    const OptimTensor& t = tensors[chunks[c].tensor];
    double squares = 0;
    for (int k = c; k < p.chunks && chunks[k].first_of_tensor == c; ++k) squares += sums[k];
    scales[chunks[c].tensor] = novograd_scale(r, *state, squares, t.second, t.largest);
  }
}

__global__ void __launch_bounds__(threads) measure(void* plan, OptimRule r, OptimState* state) {
  __shared__ double held[threads / warp];
  Plan& p = *static_cast<Plan*>(plan);
  const Chunk c = at<Chunk>(plan, p.chunks_at)[blockIdx.x];
  const OptimTensor t = at<OptimTensor>(plan, p.tensors_at)[c.tensor];
  double sum = 0;
  if (t.grad_type == VoxelType::f32)
    sum = square_sum(static_cast<const float*>(t.grad), c.begin, c.end);
  else if (t.grad_type == VoxelType::f16)
    sum = square_sum(static_cast<const Half*>(t.grad), c.begin, c.end);
  else
    sum = square_sum(static_cast<const Brain*>(t.grad), c.begin, c.end);
  sum = block_total(sum, held);
  if (threadIdx.x == 0) at<double>(plan, p.sums_at)[blockIdx.x] = sum;
  if (last_block(&p.arrived, gridDim.x)) conclude(plan, r, state, held);
}

// One chunk, four weights a thread at a time: consecutive threads take consecutive weights, and the
// four are independent, so their loads overlap.
template <class G>
__device__ void update_chunk(const OptimTensor& t, const Chunk& c, const OptimValue& value,
                             bool amsgrad) {
  constexpr int width = 4;
  const auto* grad = static_cast<const G*>(t.grad);
  const bool moments = value.kind == OptimKind::adam;
  for (std::int64_t base = c.begin + threadIdx.x; base < c.end; base += width * threads) {
    float w[width] = {}, g[width] = {}, m[width] = {}, v[width] = {}, top[width] = {};
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const std::int64_t i = base + k * threads;
      if (i >= c.end) continue;
      w[k] = t.weight[i];
      g[k] = to_float(grad[i]);
      if (t.first) m[k] = t.first[i];
      if (moments) v[k] = t.second[i];
      if (moments && amsgrad) top[k] = t.largest[i];
    }
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const std::int64_t i = base + k * threads;
      if (i >= c.end) continue;
      const float x = value.updated(w[k], g[k], t.first ? &m[k] : nullptr, &v[k],
                                    moments && amsgrad ? &top[k] : nullptr);
      t.weight[i] = x;
      if (t.first) t.first[i] = m[k];
      if (moments) t.second[i] = v[k];
      if (moments && amsgrad) t.largest[i] = top[k];
      if (!t.copy) continue;
      if (t.copy_type == VoxelType::f16)
        from_float(x, static_cast<Half*>(t.copy)[i]);
      else
        from_float(x, static_cast<Brain*>(t.copy)[i]);
    }
  }
}

__global__ void __launch_bounds__(threads)
    update(void* plan, OptimRule r, const OptimState* state) {
  if (state->skip) return;
  const Plan& p = *static_cast<const Plan*>(plan);
  const Chunk c = at<Chunk>(plan, p.chunks_at)[blockIdx.x];
  const OptimTensor t = at<OptimTensor>(plan, p.tensors_at)[c.tensor];
  const float scale = r.kind == OptimKind::novograd ? at<float>(plan, p.scales_at)[c.tensor] : 1.0f;
  const OptimValue value = OptimValue::of(r, *state, scale);
  if (t.grad_type == VoxelType::f32) return update_chunk<float>(t, c, value, r.amsgrad);
  if (t.grad_type == VoxelType::f16) return update_chunk<Half>(t, c, value, r.amsgrad);
  update_chunk<Brain>(t, c, value, r.amsgrad);
}

}  // namespace

std::size_t cuda_optim_bytes(const OptimTensor* tensors, int count) {
  return static_cast<std::size_t>(bytes_of(plan_of(tensors, count)));
}

int cuda_optim_plan(const OptimTensor* tensors, int count, void* plan, void* stream) {
  Plan p = plan_of(tensors, count);
  std::vector<char> up(static_cast<std::size_t>(p.sums_at));
  std::memcpy(up.data(), &p, sizeof p);
  std::memcpy(up.data() + p.tensors_at, tensors, count * sizeof(OptimTensor));
  auto* to = up.data() + p.chunks_at;
  std::int32_t number = 0;
  for (int i = 0; i < count; ++i) {
    const std::int32_t first = number;
    for (std::int64_t b = 0; b < tensors[i].size; b += chunk, ++number, to += sizeof(Chunk)) {
      const std::int64_t end = b + chunk < tensors[i].size ? b + chunk : tensors[i].size;
      const Chunk c{i, first, b, end};
      std::memcpy(to, &c, sizeof c);
    }
  }
  return upload(plan, up.data(), up.size(), as_stream(stream));
}

int cuda_optim_step(const OptimTensor* tensors, int count, void* plan, const OptimRule& rule,
                    OptimState* state, void* stream) {
  const Plan p = plan_of(tensors, count);
  if (p.chunks == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(p.chunks));
  if (const int e = launch(measure, grid, threads, stream, plan, rule, state)) return e;
  return launch(update, grid, threads, stream, plan, rule, static_cast<const OptimState*>(state));
}

}  // namespace sluice::kernels
