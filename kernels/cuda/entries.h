// The launchers of the .cu files, as table.cu collects them. Documented in table.h.
#pragma once

#include "kernels/cuda/table.h"

namespace sluice::kernels {

int cuda_augment(const AugmentJob* jobs, int count, void* workspace, void* stream);

std::size_t cuda_dice_ce_workspace(const DiceCeRule& rule, const DiceCeBatch& batch);
int cuda_dice_ce(const DiceCeRule& rule, const DiceCeBatch& batch, void* workspace, float* loss,
                 void* stream);
int cuda_dice_ce_backward(const DiceCeRule& rule, const DiceCeBatch& batch, void* workspace,
                          const float* grad_loss, void* grad, void* stream);

std::size_t cuda_norm_act_workspace(const NormActCall& call);
int cuda_norm_statistics(const NormActCall& call, void* workspace, float* mean, float* variance,
                         void* stream);
int cuda_norm_act(const NormActCall& call, void* y, void* stream);
int cuda_norm_act_backward(const NormActCall& call, void* workspace, const void* grad,
                           const NormActGradients& out, void* stream);

std::size_t cuda_optim_bytes(const OptimTensor* tensors, int count);
int cuda_optim_plan(const OptimTensor* tensors, int count, void* plan, void* stream);
int cuda_optim_step(const OptimTensor* tensors, int count, void* plan, const OptimRule& rule,
                    OptimState* state, void* stream);

int cuda_blend(const BlendCall& call, void* stream);
int cuda_blend_finish(const BlendFinish& finish, void* stream);

int cuda_bits(const BitRule& rule, std::uint32_t* words, std::uint32_t* ranks, void* stream);
int cuda_draw(const BitDraw& draw, int count, std::int64_t* voxels, void* stream);
int cuda_one_hot(const std::uint8_t* label, std::int64_t voxels, int classes, VoxelType type,
                 void* out, void* stream);

int cuda_dropout(const DropoutRule& rule, const DropoutCall& call, VoxelType type, void* stream);

}  // namespace sluice::kernels
