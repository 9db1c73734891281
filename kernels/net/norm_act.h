// Normalisation, activation and residual sum in one pass over memory, forward and backward:
//
//   u = (x - mean) * rstd * gamma + beta,   y = (u > 0 ? u : slope * u) + residual
//
// Instance norm has statistics for every sample and channel, group norm for every sample and group
// of channels, batch norm for every channel; beyond that all are the same code. Statistics and sums
// are float32 or better whatever x is.
//
// Invariant: sums are formed over blocks of a fixed size and added in order, so results do not
// depend on the number of threads. Tensors in channels-last layout take fused loops, on the CPU
// and, where libsluice_cuda.so is, on a CUDA device; all others (float64, channels first) the same
// formulas in LibTorch's operations.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

// Not suggest_memory_format(): with one channel both layouts are the same and it says "contiguous".
inline at::MemoryFormat channels_last_of(const at::Tensor& t) {
  return t.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

// [G, C] each, G = N for instance and group norm and 1 for batch norm; float32 (float64 for
// float64 x).
struct NormStats {
  at::Tensor mean;
  at::Tensor variance;  // biased
};

// What normalisation and activation do to x, without the sums over x.
struct NormAct {
  at::Tensor mean, rstd;   // [G, C]
  at::Tensor gamma, beta;  // [C] or undefined: 1 and 0
  at::Tensor slope;        // one number for u <= 0, or undefined: no activation
  bool frozen = false;     // mean and rstd are constants (running statistics, or no norm at all)
  int together = 1;        // so many channels, one after another, have their statistics in common
};

struct NormActGrad {
  at::Tensor input;        // as x
  at::Tensor gamma, beta;  // [C], where gamma is defined
  at::Tensor slope;        // [1], where slope is defined
};

NormStats norm_stats(const at::Tensor& x, bool per_sample);
// Of `together` channels at a time, from those of every channel: the same shape, equal numbers.
NormStats in_common(const NormStats& every_channel, int together);
// `residual` as x, or undefined.
at::Tensor norm_act(const at::Tensor& x, const NormAct& p, const at::Tensor& residual);
// The residual's gradient is `grad` itself.
NormActGrad norm_act_backward(const at::Tensor& grad, const at::Tensor& x, const NormAct& p);

// [C] sums over everything but channels, float32 (float64 for float64 x).
at::Tensor channel_sums(const at::Tensor& x);

// Whether the fused loops take this tensor.
bool norm_act_is_fused(const at::Tensor& x);

}  // namespace sluice
