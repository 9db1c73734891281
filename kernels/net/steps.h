// The kinds of step a Program is made of.
//
// Invariant: a step changes nothing but its Frame, so frames may run on any thread at once; only
// batch norm writes running statistics, in the one frame of a pass that leads.
#pragma once

#include "kernels/net/direct_conv.h"
#include "kernels/net/dropout_value.h"
#include "kernels/net/norm_act.h"
#include "kernels/net/program.h"

namespace sluice {

// Convolution or transposed convolution, plus a residual where inputs[1] exists.
struct ConvStep final : Step {
  ConvSpec spec;
  int weight = -1;
  int bias = -1;         // computed with
  int silent_bias = -1;  // not computed with; its gradient is zero
  std::shared_ptr<const void> prepare(const Pass& pass) const override;
  Size output_size(const std::vector<Size>& in) const override {
    return conv_output_size(spec, in[0]);
  }
  Product product(const Size& input) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  void input_grad(Frame& f, const at::Tensor& grad) const;
};

// Norm, activation and residual (inputs[1]), each optional.
struct NormActStep final : Step {
  Norm norm = Norm::none;
  std::int64_t channels = 0;
  double eps = 1e-5, momentum = 0.1;
  int gamma = -1, beta = -1, slope = -1, bias = -1;  // parameters
  std::optional<double> fixed_slope;
  int running_mean = -1, running_var = -1, batches = -1;  // buffers
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  NormAct numbers(Frame& f, const at::Tensor& x) const;
  NormStats statistics(Frame& f, const at::Tensor& x) const;
};

// t, dense in a layout, with that layout's own strides. What has one channel is in all of them at
// once, and cuDNN's callers go by strides: such a convolution would be done in another layout, and
// its result be moved.
at::Tensor as_laid_out(const at::Tensor& t, at::MemoryFormat layout);

// Concatenated along the channels, and a part of them, of channels-last images of any device:
// as rows of a table, in words of up to 8 bytes. (LibTorch takes images of five axes value by
// value.)
at::Tensor concatenated(const at::Tensor& a, const at::Tensor& b);
at::Tensor channels_of(const at::Tensor& t, std::int64_t first, std::int64_t count);

struct DropoutStep final : Step {
  double p = 0;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  kernels::DropoutRule rule(const Frame& f) const;
};

struct AddStep final : Step {
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

struct ConcatStep final : Step {
  std::int64_t first_channels = 0;  // of inputs[0]
  Size output_size(const std::vector<Size>& in) const override {
    Size s = in[0];
    s[1] += in[1][1];
    return s;
  }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

}  // namespace sluice
