// Everything that libsluice_cuda.so offers, as one table of functions. The library is found with
// dlopen where there is a GPU (kernels/cuda/cuda_library.h), so nothing else links CUDA.
//
// Invariant: all work is queued on the given stream (a cudaStream_t) and nothing waits for it but
// `synchronize`; device memory comes from the caller, so the caller's allocator owns all of it. A
// function returns 0 or a cudaError_t, which `error_text` explains. A stream may be recording a
// graph: what is repeated then reads no memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/augment/augment_job.h"
#include "kernels/base/bit_mask.h"
#include "kernels/infer/blend_voxel.h"
#include "kernels/loss/dice_ce_voxel.h"
#include "kernels/net/dropout_value.h"
#include "kernels/net/norm_act_call.h"
#include "kernels/optim/optim_value.h"

namespace sluice::kernels {

struct CudaTable {
  static constexpr int current = 4;
  int version;

  // The runtime, for programs that have no other. `use` is for the calling thread. No device counts
  // where one of them is older than the code here (compute capability 8.0).
  int (*devices)(int* count);
  int (*use)(int device);
  const char* (*error_text)(int error);
  int (*allocate)(void** memory, std::size_t bytes);
  int (*allocate_pinned)(void** memory, std::size_t bytes);
  int (*release)(void* memory);
  int (*release_pinned)(void* memory);
  int (*copy)(void* to, const void* from, std::size_t bytes, void* stream);
  int (*synchronize)(void* stream);
  int (*recording)(void* stream, bool* yes);  // whether it records a graph

  // Jobs with device pointers; `workspace` has sluice_augment_workspace() bytes.
  int (*augment)(const AugmentJob* jobs, int count, void* workspace, void* stream);

  // `loss` is one float on the device, as is the gradient of what it goes into. The backward pass
  // reads what the forward pass left in the workspace, and writes `grad` in the logits' layout.
  std::size_t (*dice_ce_workspace)(const DiceCeRule& rule, const DiceCeBatch& batch);
  int (*dice_ce)(const DiceCeRule& rule, const DiceCeBatch& batch, void* workspace, float* loss,
                 void* stream);
  int (*dice_ce_backward)(const DiceCeRule& rule, const DiceCeBatch& batch, void* workspace,
                          const float* grad_loss, void* grad, void* stream);

  // mean and (biased) variance are [groups, channels]; the workspace is free after each call.
  std::size_t (*norm_act_workspace)(const NormActCall& call);
  int (*norm_statistics)(const NormActCall& call, void* workspace, float* mean, float* variance,
                         void* stream);
  int (*norm_act)(const NormActCall& call, void* y, void* stream);
  int (*norm_act_backward)(const NormActCall& call, void* workspace, const void* grad,
                           const NormActGradients& out, void* stream);

  // The plan (optim_bytes of device memory) is made once for a list of tensors; then a step is two
  // launches. `state` is in device memory. While the stream records, the plan is there at once, so
  // its memory must be one that the recorded work in front of it does not use (`allocate`).
  std::size_t (*optim_bytes)(const OptimTensor* tensors, int count);
  int (*optim_plan)(const OptimTensor* tensors, int count, void* plan, void* stream);
  int (*optim_step)(const OptimTensor* tensors, int count, void* plan, const OptimRule& rule,
                    OptimState* state, void* stream);

  // A batch of windows into the volume's sums; then planes that no later window touches.
  int (*blend)(const BlendCall& call, void* stream);
  int (*blend_finish)(const BlendFinish& finish, void* stream);

  // Bit masks and draws from them (kernels/base/bit_mask.h); one-hot [classes, voxels].
  int (*bits)(const BitRule& rule, std::uint32_t* words, std::uint32_t* ranks, void* stream);
  int (*draw)(const BitDraw& draw, int count, std::int64_t* voxels, void* stream);
  int (*one_hot)(const std::uint8_t* label, std::int64_t voxels, int classes, VoxelType type,
                 void* out, void* stream);

  // float32, float16 or bfloat16; `y` may be `x`.
  int (*dropout)(const DropoutRule& rule, const DropoutCall& call, VoxelType type, void* stream);
};

}  // namespace sluice::kernels

extern "C" __attribute__((visibility("default"))) const sluice::kernels::CudaTable*
sluice_cuda_table();
