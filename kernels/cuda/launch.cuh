// What the kernels' launchers and reductions share.
#pragma once

#include <cuda_runtime.h>  // in the tests, tests/cuda/emulated

#include <cstdint>

namespace sluice::kernels {

inline cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

// kernel<<<grid, threads, 0, stream>>>(arguments): a function, so that the tests can run a launch
// on the host (tests/cuda/emulated/cuda_runtime.h).
#ifdef __CUDACC__
template <class... P, class... A>
int launch(void (*kernel)(P...), dim3 grid, int threads, void* stream, A... arguments) {
  kernel<<<grid, static_cast<unsigned>(threads), 0, as_stream(stream)>>>(arguments...);
  return cudaGetLastError();
}
#endif

// ---- loops --------------------------------------------------------------------------------------

// Enough blocks for each_item to reach n items.
inline unsigned blocks_for(std::int64_t n, int threads) {
  const std::int64_t blocks = (n + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
}
// item(i) for all i below n, shared by the threads of a launch.
template <class Item>
__device__ inline void each_item(std::int64_t n, const Item& item) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step)
    item(i);
}

// ---- streams that record a graph ----------------------------------------------------------------

inline int is_recording(cudaStream_t stream, bool& yes) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const int e = cudaStreamIsCapturing(stream, &status);
  yes = status != cudaStreamCaptureStatusNone;
  return e;
}

// A call that is done now and is no part of what this thread records.
template <class Call>
int unrecorded(Call&& call) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (const int e = cudaThreadExchangeStreamCaptureMode(&mode)) return e;
  const int result = call();
  const int e = cudaThreadExchangeStreamCaptureMode(&mode);
  return result ? result : e;
}

// Host memory that is gone afterwards to the device: queued, or done now where the stream records.
inline int upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  bool recording = false;
  if (const int e = is_recording(stream, recording)) return e;
  if (!recording) return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);
  return unrecorded([&]() -> int {
    cudaStream_t own = nullptr;
    if (const int e = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)) return e;
    int e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, own);
    if (!e) e = cudaStreamSynchronize(own);
    cudaStreamDestroy(own);
    return e;
  });
}

// ---- sums ---------------------------------------------------------------------------------------

inline constexpr int warp = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;

// Adds up one value a thread; every thread gets the sum. In a fixed order, so it repeats bit for
// bit. T has operator+= of its own, or an `add`; `held` is one T a warp.
template <class T, class Shift, class Add>
__device__ inline T block_sum(T value, T* held, const Shift& shifted, const Add& add) {
  for (int o = warp / 2; o > 0; o /= 2) add(value, shifted(value, o));
  const int lane = threadIdx.x % warp, w = threadIdx.x / warp;
  __syncthreads();  // `held` may still be read from a call before
  if (lane == 0) held[w] = value;
  __syncthreads();
  T sum = held[0];
  const int warps = (blockDim.x + warp - 1) / warp;
  for (int i = 1; i < warps; ++i) add(sum, held[i]);
  return sum;
}

template <class T>
__device__ inline T shuffle_down(T v, int by) {
  return __shfl_down_sync(all_lanes, v, by);
}

template <class T>
__device__ inline T block_total(T value, T* held) {
  return block_sum(
      value, held, [](T v, int o) { return shuffle_down(v, o); }, [](T& a, T b) { a += b; });
}

// Whether this block is the last of `blocks` to get here; what the others wrote before is then
// visible to it. `arrived` is 0 before the first and again after the last.
__device__ inline bool last_block(unsigned* arrived, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1u) == blocks - 1;
    if (last) *arrived = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

}  // namespace sluice::kernels
