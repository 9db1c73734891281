// What norm_act is asked for, in plain pointers: channels-last memory [groups, rows, channels], as
// a device reads it. Instance and group norm have a group a sample, batch norm one for all.
#pragma once

#include "kernels/net/norm_act_value.h"

namespace sluice::kernels {

struct NormActCall {
  VoxelType type = VoxelType::f32;  // of x, residual, y and the gradients of them
  std::int64_t groups = 0, rows = 0, channels = 0;
  const void *x = nullptr, *residual = nullptr;   // residual: null for none
  const float *mean = nullptr, *rstd = nullptr;   // [groups, channels]
  const float *gamma = nullptr, *beta = nullptr;  // [channels]; null: 1 and 0
  const float* slope = nullptr;                   // one number; null: no activation
  bool frozen = false;                            // mean and rstd are constants
  int together = 1;                               // channels with statistics in common
};

struct NormActGradients {
  void* x = nullptr;                        // as the call's x
  float *gamma = nullptr, *beta = nullptr;  // [channels]; null: not wanted
  float* slope = nullptr;                   // one number; null: not wanted
};

}  // namespace sluice::kernels
