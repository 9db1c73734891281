// The door from tensors on a CUDA device to libsluice_cuda.so, which is loaded when it is first
// asked for and only where there is a device.
//
// Invariant: work is queued on the calling thread's current stream of the tensor's device, and
// workspaces come from LibTorch's allocator, which takes them back in that stream's order. Without
// library or device cuda_library() is null and callers go on as if there were no such kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cuda/table.h"

namespace sluice {

const kernels::CudaTable* cuda_library();

// What a launch needs: made from a tensor on the device.
struct CudaCall {
  const kernels::CudaTable& table;
  void* stream;
  at::Device device;

  explicit CudaCall(const at::Tensor& on);  // throws an Error (gpu) where cuda_library() is null
  at::Tensor memory(std::size_t bytes) const;
  // The same, but where the stream records: memory that no other recorded work uses before or
  // after.
  at::Tensor own_memory(std::size_t bytes) const;
  void require(int error) const;  // throws an Error (gpu) where it is one
};

// Whether the kernels take this tensor: on a CUDA device, with the library there.
bool cuda_takes(const at::Tensor& t);
// float32, float16 and bfloat16; anything else is refused with a DataError.
kernels::VoxelType cuda_type(const at::Tensor& t);
// And int16, uint8 and bool, for the kernels that only read them.
kernels::VoxelType voxel_type(const at::Tensor& t);
bool is_voxel_type(at::ScalarType type);  // whether it is one of these

}  // namespace sluice
