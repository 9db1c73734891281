// The steps that SegResNet has and U-Nets lack: group norm with ReLU, doubling of the extents,
// dropout of whole channels.
//
// Invariant: as in steps.h; none of them mixes samples.
#pragma once

#include "kernels/net/program.h"

namespace sluice {

struct GroupNormReluStep final : Step {
  std::int64_t groups = 1;
  double eps = 1e-5;
  int gamma = -1, beta = -1;  // parameters
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// Linear interpolation whose voxels lie at the middles of halves (align_corners=False).
struct DoubleStep final : Step {
  Size output_size(const std::vector<Size>& in) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// The gradient in front of a linear doubling of all spatial axes (align_corners false), axis by
// axis: LibTorch's own on a CUDA device adds in any order.
at::Tensor doubling_backward(at::Tensor grad);

struct ChannelDropoutStep final : Step {
  double p = 0;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

}  // namespace sluice
