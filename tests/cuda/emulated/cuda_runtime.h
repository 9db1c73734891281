// A CUDA device on the host, for the tests: the .cu files are compiled by the host's compiler
// against this header in place of CUDA's, and a launch runs block by block, each thread of a block
// as a fiber that goes on when all of its block (or warp) have reached the barrier.
//
// So indices, barriers, shuffles and reductions are tested where there is no GPU. What it cannot
// show: races between blocks, since they run one after the other, and what only a memory model
// or a compiler for the device would do.
//
// Invariant: one block at a time, so a block's shared variables are plain static ones. A barrier
// that not all threads of a block reach ends the program with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

namespace emulated {
extern uint3 thread, block;
extern dim3 threads, blocks;
void run(dim3 grid, int threads, const std::function<void()>& body);
void wait_block();
void wait_warp();
void* slot(unsigned lane);  // of the warp under way: 16 bytes
}  // namespace emulated

#define threadIdx (::emulated::thread)
#define blockIdx (::emulated::block)
#define blockDim (::emulated::threads)
#define gridDim (::emulated::blocks)

inline void __syncthreads() { emulated::wait_block(); }
inline void __syncwarp(unsigned = 0) { emulated::wait_warp(); }
inline void __threadfence() {}

template <class T>
T __shfl_sync(unsigned, T v, int from) {
  const unsigned lane = threadIdx.x % 32;
  std::memcpy(emulated::slot(lane), &v, sizeof v);
  emulated::wait_warp();
  std::memcpy(&v, emulated::slot(static_cast<unsigned>(from) % 32), sizeof v);
  emulated::wait_warp();
  return v;
}
template <class T>
T __shfl_down_sync(unsigned m, T v, int by) {
  const int from = static_cast<int>(threadIdx.x % 32) + by;
  return __shfl_sync(m, v, from < 32 ? from : static_cast<int>(threadIdx.x % 32));
}
template <class T>
T __shfl_xor_sync(unsigned m, T v, int with) {
  return __shfl_sync(m, v, static_cast<int>(threadIdx.x % 32) ^ with);
}
inline unsigned __ballot_sync(unsigned m, int yes) {
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) bits |= (__shfl_sync(m, yes, i) != 0 ? 1u : 0u) << i;
  return bits;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
template <class T>
T atomicAdd(T* at, T v) {
  const T before = *at;
  *at += v;
  return before;
}
template <class T>
T atomicMin(T* at, T v) {
  const T before = *at;
  if (v < before) *at = v;
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T v) {
  const T before = *at;
  if (before == expected) *at = v;
  return before;
}

// ---- the runtime --------------------------------------------------------------------------------

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDefault = 4 };
cudaError_t cudaMalloc(void** memory, std::size_t bytes);  // full of garbage
cudaError_t cudaFree(void* memory);
inline cudaError_t cudaMallocHost(void** memory, std::size_t n) { return cudaMalloc(memory, n); }
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
// A stream that records: this one, where it is not null. What is queued there is not done.
namespace emulated {
inline cudaStream_t recording = nullptr;
}
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed };
enum { cudaStreamNonBlocking = 1 };
inline cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  *status =
      s && s == emulated::recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;
  const cudaStreamCaptureMode before = now;
  now = *mode;
  *mode = before;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  *s = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, int,
                                   cudaStream_t stream) {
  if (!stream || stream != emulated::recording) std::memcpy(to, from, n);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t n, cudaStream_t) {
  std::memset(to, value, n);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  return cudaSuccess;
}
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75 };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 9;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t e) { return e ? "invalid value" : "no error"; }

namespace sluice::kernels {
template <class... P, class... A>
int launch(void (*kernel)(P...), dim3 grid, int threads, void*, A... arguments) {
  emulated::run(grid, threads, [=] { kernel(arguments...); });
  return 0;
}
}  // namespace sluice::kernels
