#include "kernels/cuda/table.h"

#include "kernels/cuda/entries.h"
#include "kernels/cuda/launch.cuh"

namespace sluice::kernels {
namespace {

int devices(int* count) {
  int e = cudaGetDeviceCount(count);
  for (int i = 0; !e && i < *count; ++i) {
    int major = 0;
    e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
    if (major < 8) *count = 0;
  }
  return e;
}
int use(int device) { return cudaSetDevice(device); }
const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
// Also while a stream of this thread records.
int allocate(void** memory, std::size_t bytes) {
  return unrecorded([&] { return cudaMalloc(memory, bytes); });
}
int allocate_pinned(void** memory, std::size_t bytes) { return cudaMallocHost(memory, bytes); }
int release(void* memory) {
  return unrecorded([&] { return cudaFree(memory); });
}
int release_pinned(void* memory) { return cudaFreeHost(memory); }
int copy(void* to, const void* from, std::size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream));
}
int synchronize(void* stream) { return cudaStreamSynchronize(as_stream(stream)); }
int recording(void* stream, bool* yes) { return is_recording(as_stream(stream), *yes); }

const CudaTable table{CudaTable::current,
                      devices,
                      use,
                      error_text,
                      allocate,
                      allocate_pinned,
                      release,
                      release_pinned,
                      copy,
                      synchronize,
                      recording,
                      cuda_augment,
                      cuda_dice_ce_workspace,
                      cuda_dice_ce,
                      cuda_dice_ce_backward,
                      cuda_norm_act_workspace,
                      cuda_norm_statistics,
                      cuda_norm_act,
                      cuda_norm_act_backward,
                      cuda_optim_bytes,
                      cuda_optim_plan,
                      cuda_optim_step,
                      cuda_blend,
                      cuda_blend_finish,
                      cuda_bits,
                      cuda_draw,
                      cuda_one_hot,
                      cuda_dropout};

}  // namespace
}  // namespace sluice::kernels

const sluice::kernels::CudaTable* sluice_cuda_table() { return &sluice::kernels::table; }
