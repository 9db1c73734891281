// Everything that libsluice_cuda.so offers, as one table of functions. The library is found with
// dlopen where there is a GPU (kernels/cuda_library.h), so nothing else links CUDA.
//
// Invariant: all work is queued on the given stream (a cudaStream_t) and nothing waits for it but
// `synchronize`; device memory comes from the caller, so the caller's allocator owns all of it. A
// function returns 0 or a cudaError_t, which `error_text` explains.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/augment_job.h"

namespace sluice::kernels {

struct CudaTable {
  static constexpr int current = 1;
  int version;

  // The runtime, for programs that have no other.
  int (*devices)(int* count);
  const char* (*error_text)(int error);
  int (*allocate)(void** memory, std::size_t bytes);
  int (*allocate_pinned)(void** memory, std::size_t bytes);
  int (*release)(void* memory);
  int (*release_pinned)(void* memory);
  int (*copy)(void* to, const void* from, std::size_t bytes, void* stream);
  int (*synchronize)(void* stream);

  // Jobs with device pointers; `workspace` has sluice_augment_workspace() bytes.
  int (*augment)(const AugmentJob* jobs, int count, void* workspace, void* stream);
};

}  // namespace sluice::kernels

extern "C" __attribute__((visibility("default"))) const sluice::kernels::CudaTable*
sluice_cuda_table();
