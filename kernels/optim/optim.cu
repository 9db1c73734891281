// All tensors of a network in two launches: one sums the gradients' squares and decides (unscaling,
// clipping, whether to skip), one updates; LAMB's norms and the like take one in between. Tensors
// are cut into chunks of equal size, so that large and small ones share the device evenly.
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
  std::int64_t tensors_at, chunks_at, sums_at, more_sums_at, scales_at;
};

std::int64_t chunks_of(std::int64_t n) { return (n + chunk - 1) / chunk; }

Plan plan_of(const OptimTensor* t, int count) {
  Plan p{count, 0, 0, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < count; ++i) p.chunks += static_cast<std::int32_t>(chunks_of(t[i].size));
  const auto up = [](std::int64_t n) { return (n + 63) / 64 * 64; };
  p.tensors_at = up(sizeof(Plan));
  p.chunks_at = p.tensors_at + up(count * static_cast<std::int64_t>(sizeof(OptimTensor)));
  p.sums_at = p.chunks_at + up(p.chunks * static_cast<std::int64_t>(sizeof(Chunk)));
  p.more_sums_at = p.sums_at + up(p.chunks * 8);
  p.scales_at = p.more_sums_at + up(p.chunks * 8);
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

// f(c, number of its tensor) for the first chunk c of each tensor.
template <class F>
__device__ void for_each_tensor(void* plan, const F& f) {
  const Plan& p = *static_cast<const Plan*>(plan);
  const auto* chunks = at<Chunk>(plan, p.chunks_at);
  for (int c = threadIdx.x; c < p.chunks; c += threads)
    if (chunks[c].first_of_tensor == c) f(c, chunks[c].tensor);
}
// A tensor's sum, in the order of its chunks.
__device__ double tensor_sum(void* plan, const double* sums, int first) {
  const Plan& p = *static_cast<const Plan*>(plan);
  const auto* chunks = at<Chunk>(plan, p.chunks_at);
  double sum = 0;
  for (int k = first; k < p.chunks && chunks[k].first_of_tensor == first; ++k) sum += sums[k];
  return sum;
}

// The last block's part: the decision, Novograd's scales.
__device__ void conclude(void* plan, const OptimRule& r, OptimState* state, double* held) {
  const Plan& p = *static_cast<const Plan*>(plan);
  const double* sums = at<double>(plan, p.sums_at);
  double mine = 0;
  for (int i = threadIdx.x; i < p.chunks; i += threads) mine += sums[i];
  const double all = block_total(mine, held);
  if (threadIdx.x == 0) decide(r, all, *state);
  __syncthreads();
  if (r.kind != OptimKind::novograd || r.measures() || state->skip) return;
  for_each_tensor(plan, [&](int c, int tensor) {
    const OptimTensor& t = at<OptimTensor>(plan, p.tensors_at)[tensor];
    at<float>(plan, p.scales_at)[tensor] =
        novograd_scale(r, plain_squares(*state, tensor_sum(plan, sums, c)), t.second, t.third);
  });
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

// LAMB's moments of one chunk, and its part of the squares of weights and directions; LARS' of
// weights and gradients, and Novograd's.
template <class G>
__device__ void measure_chunk(const OptimTensor& t, const Chunk& c, const OptimValue& value,
                              double& weights, double& directions) {
  const auto* grad = static_cast<const G*>(t.grad);
  for (std::int64_t i = c.begin + threadIdx.x; i < c.end; i += threads) {
    const float g = value.plain<OneNumber>(to_float(grad[i]));
    double d = g;
    if (value.kind == OptimKind::lamb) {
      float first = t.first[i], second = t.second[i];
      value.moments<OneNumber>(g, first, second);
      t.first[i] = first;
      t.second[i] = second;
      d = value.direction<OneNumber>(t.weight[i], first, second);
    }
    const double w = t.weight[i];
    weights = fma(w, w, weights);
    directions = fma(d, d, directions);
  }
}

__global__ void __launch_bounds__(threads)
    measure_tensors(void* plan, OptimRule r, const OptimState* state) {
  __shared__ double held[threads / warp];
  if (state->skip) return;
  Plan& p = *static_cast<Plan*>(plan);
  const Chunk c = at<Chunk>(plan, p.chunks_at)[blockIdx.x];
  const OptimTensor t = at<OptimTensor>(plan, p.tensors_at)[c.tensor];
  const OptimValue value = OptimValue::of(r, *state, t.lr, t.weight_decay, 1.0f, t.since);
  double weights = 0, directions = 0;
  if (t.grad_type == VoxelType::f32)
    measure_chunk<float>(t, c, value, weights, directions);
  else if (t.grad_type == VoxelType::f16)
    measure_chunk<Half>(t, c, value, weights, directions);
  else
    measure_chunk<Brain>(t, c, value, weights, directions);
  weights = block_total(weights, held);
  directions = block_total(directions, held);
  double *w = at<double>(plan, p.sums_at), *d = at<double>(plan, p.more_sums_at);
  if (threadIdx.x == 0) w[blockIdx.x] = weights, d[blockIdx.x] = directions;
  if (!last_block(&p.arrived, gridDim.x)) return;
  for_each_tensor(plan, [&](int first, int tensor) {
    const OptimTensor& of = at<OptimTensor>(plan, p.tensors_at)[tensor];
    const double along = tensor_sum(plan, d, first);
    at<float>(plan, p.scales_at)[tensor] =
        r.kind == OptimKind::novograd
            ? novograd_scale(r, along, of.second, of.third)
            : trust_ratio(r, tensor_sum(plan, w, first), along, of.weight_decay);
  });
}

// One chunk, four weights a thread at a time: consecutive threads take consecutive weights, and the
// four are independent, so their loads overlap.
template <class G>
__device__ void update_chunk(const OptimTensor& t, const Chunk& c, const OptimValue& value,
                             bool second_of_tensor) {
  constexpr int width = 4;
  const auto* grad = static_cast<const G*>(t.grad);
  float* second = second_of_tensor ? nullptr : t.second;
  float* third = second_of_tensor ? nullptr : t.third;
  for (std::int64_t base = c.begin + threadIdx.x; base < c.end; base += width * threads) {
    float w[width] = {}, g[width] = {}, m[width] = {}, v[width] = {}, a[width] = {};
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const std::int64_t i = base + k * threads;
      if (i >= c.end) continue;
      w[k] = t.weight[i];
      g[k] = to_float(grad[i]);
      if (t.first) m[k] = t.first[i];
      if (second) v[k] = second[i];
      if (third) a[k] = third[i];
    }
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const std::int64_t i = base + k * threads;
      if (i >= c.end) continue;
      t.weight[i] = value.updated<OneNumber>(w[k], g[k], m[k], v[k], a[k]);
      if (t.first) t.first[i] = m[k];
      if (second) second[i] = v[k];
      if (third) third[i] = a[k];
    }
  }
}

__global__ void __launch_bounds__(threads)
    update(void* plan, OptimRule r, const OptimState* state) {
  if (state->skip) return;
  const Plan& p = *static_cast<const Plan*>(plan);
  const Chunk c = at<Chunk>(plan, p.chunks_at)[blockIdx.x];
  const OptimTensor t = at<OptimTensor>(plan, p.tensors_at)[c.tensor];
  const bool scaled = r.kind == OptimKind::novograd || r.measures();
  const float scale = scaled ? at<float>(plan, p.scales_at)[c.tensor] : 1.0f;
  __shared__ OptimValue value;  // double-precision powers and cosines: once a block
  if (threadIdx.x == 0) value = OptimValue::of(r, *state, t.lr, t.weight_decay, scale, t.since);
  __syncthreads();
  const OptimValue v = value;
  if (t.grad_type == VoxelType::f32) return update_chunk<float>(t, c, v, r.second_of_tensor());
  if (t.grad_type == VoxelType::f16) return update_chunk<Half>(t, c, v, r.second_of_tensor());
  update_chunk<Brain>(t, c, v, r.second_of_tensor());
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
  if (rule.measures())
    if (const int e = launch(measure_tensors, grid, threads, stream, plan, rule,
                             static_cast<const OptimState*>(state)))
      return e;
  return launch(update, grid, threads, stream, plan, rule, static_cast<const OptimState*>(state));
}

}  // namespace sluice::kernels
