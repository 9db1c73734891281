// The table itself, and its entries of the runtime.
#include "kernels/cuda/table.h"

#include "kernels/cuda/launch.cuh"

namespace sluice::kernels {

int cuda_devices(int* count) {
  int e = cudaGetDeviceCount(count);
  for (int i = 0; !e && i < *count; ++i) {
    int major = 0;
    e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
    if (major < 8) *count = 0;
  }
  return e;
}
int cuda_use(int device) { return cudaSetDevice(device); }
const char* cuda_error_text(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
// Also while a stream of this thread records.
int cuda_allocate(void** memory, std::size_t bytes) {
  return unrecorded([&] { return cudaMalloc(memory, bytes); });
}
int cuda_allocate_pinned(void** memory, std::size_t bytes) { return cudaMallocHost(memory, bytes); }
int cuda_release(void* memory) {
  return unrecorded([&] { return cudaFree(memory); });
}
int cuda_release_pinned(void* memory) { return cudaFreeHost(memory); }
int cuda_copy(void* to, const void* from, std::size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream));
}
int cuda_synchronize(void* stream) { return cudaStreamSynchronize(as_stream(stream)); }
int cuda_recording(void* stream, bool* yes) { return is_recording(as_stream(stream), *yes); }

static const CudaTable table{
    CudaTable::current,
#define ENTRY(result, name, parameters) cuda_##name,
#include "kernels/cuda/entries.inc"
#undef ENTRY
};

}  // namespace sluice::kernels

const sluice::kernels::CudaTable* sluice_cuda_table() { return &sluice::kernels::table; }
