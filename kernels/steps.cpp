#include "kernels/steps.h"

#include <ATen/ATen.h>

#include "engine/random.h"

namespace sluice {
namespace {

const at::Tensor none;

at::Tensor input(const Frame& f, const Step& s, std::size_t i) {
  return i < s.inputs.size() ? f.values[s.inputs[i]] : none;
}

}  // namespace

// ---- convolution --------------------------------------------------------------------------------

at::Tensor ConvStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const at::Tensor b = bias >= 0 ? f.weight(bias).to(x.scalar_type()) : none;
  const std::vector<std::int64_t> dilation(spec.kernel.size(), 1);
  at::Tensor y =
      at::convolution(x, f.weight(weight), b.defined() ? std::optional(b) : std::nullopt,
                      spec.stride, spec.padding, dilation, spec.transposed, spec.output_padding, 1);
  if (inputs.size() > 1) y.add_(f.values[inputs[1]]);
  return y;
}

void ConvStep::backward(Frame& f, const at::Tensor& grad) const {
  const std::vector<std::int64_t> dilation(spec.kernel.size(), 1), bias_size{spec.out};
  auto [dx, dw, db] = at::convolution_backward(
      grad, f.values[inputs[0]], f.weight(weight), at::OptionalIntArrayRef(bias_size), spec.stride,
      spec.padding, dilation, spec.transposed, spec.output_padding, 1,
      {f.wants[inputs[0]], true, bias >= 0});
  if (dx.defined()) f.add_grad(inputs[0], dx);
  f.add_parameter_grad(weight, dw);
  if (bias >= 0) f.add_parameter_grad(bias, db);
  if (silent_bias >= 0) f.add_parameter_grad(silent_bias, at::zeros_like(f.weight(silent_bias)));
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

// ---- norm and activation ------------------------------------------------------------------------

// The statistics x is normalised with; in training, batch norm's running ones follow them.
NormStats NormActStep::statistics(Frame& f, const at::Tensor& x) const {
  if (norm == Norm::instance) return norm_stats(x, true);
  const auto& buffers = f.program->buffers;
  const at::Tensor mean = buffers[running_mean].tensor, var = buffers[running_var].tensor;
  const at::Tensor b = bias >= 0 ? f.weight(bias) : at::zeros_like(mean);
  if (!f.training) return {(mean - b).unsqueeze(0), var.unsqueeze(0)};
  NormStats s = norm_stats(x, false);
  const double n = static_cast<double>(x.numel() / x.size(1));
  mean.lerp_(s.mean[0] + b, momentum);
  var.lerp_(s.variance[0] * (n / std::max(1.0, n - 1)), momentum);
  buffers[batches].tensor.add_(1);
  return s;
}

NormAct NormActStep::numbers(Frame& f, const at::Tensor& x) const {
  NormAct p;
  const auto options = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  if (norm == Norm::none) {
    p.mean = at::zeros({1, x.size(1)}, options);
    p.rstd = at::ones({1, x.size(1)}, options);
  } else {
    const NormStats s = statistics(f, x);
    p.mean = s.mean.contiguous();
    p.rstd = (s.variance + eps).rsqrt_();
  }
  p.frozen = norm == Norm::none || (norm == Norm::batch && !f.training);
  if (gamma >= 0) {
    p.gamma = f.weight(gamma);
    p.beta = f.weight(beta);
  }
  if (slope >= 0)
    p.slope = f.weight(slope);
  else if (fixed_slope)
    p.slope = at::full({1}, *fixed_slope, options);
  return p;
}

at::Tensor NormActStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const NormAct p = numbers(f, x);
  if (f.keep) f.saved[number] = {p.mean, p.rstd, p.slope};
  return norm_act(x, p, input(f, *this, 1));
}

void NormActStep::backward(Frame& f, const at::Tensor& grad) const {
  const auto& saved = f.saved[number];
  NormAct p{saved[0], saved[1], none,
            none,     saved[2], norm == Norm::none || (norm == Norm::batch && !f.training)};
  if (gamma >= 0) {
    p.gamma = f.weight(gamma);
    p.beta = f.weight(beta);
  }
  const NormActGrad g = norm_act_backward(grad, f.values[inputs[0]], p);
  f.add_grad(inputs[0], g.input);
  if (slope >= 0) f.add_parameter_grad(slope, g.slope);
  if (gamma >= 0) {
    f.add_parameter_grad(gamma, g.gamma);
    f.add_parameter_grad(beta, g.beta);
  }
  // With running statistics nothing takes the convolution's bias away again.
  if (p.frozen && bias >= 0) {
    std::vector<std::int64_t> dims{0};
    for (std::int64_t d = 2; d < grad.dim(); ++d) dims.push_back(d);
    f.add_parameter_grad(bias, g.input.sum(dims, false, at::kFloat));
  }
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

// ---- dropout ------------------------------------------------------------------------------------

namespace {

// 0 or 1/(1-p) for every element, a pure function of (key, sample, position in the sample).
at::Tensor dropout_mask(const at::Tensor& x, double p, std::uint64_t key, std::int64_t first) {
  at::Tensor mask = at::empty(x.sizes(), at::kFloat);
  float* m = mask.data_ptr<float>();
  const std::int64_t size = x.numel() / x.size(0);
  const float kept = static_cast<float>(1 / (1 - p));
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    const std::uint64_t sample = mix(key ^ mix(static_cast<std::uint64_t>(first + n)));
    for (std::int64_t i = 0; i < size; i += 4) {
      const Block4 bits = philox(static_cast<std::uint64_t>(i), sample, key);
      for (std::int64_t j = 0; j < 4 && i + j < size; ++j)
        m[n * size + i + j] = unit_float(bits.v[j]) < p ? 0.f : kept;
    }
  }
  return mask.to(x.options()).contiguous(x.suggest_memory_format());
}

}  // namespace

at::Tensor DropoutStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  if (!f.training) return x;
  const at::Tensor mask =
      dropout_mask(x, p, mix(f.key + static_cast<std::uint64_t>(number)), f.first_sample);
  if (f.keep) f.saved[number] = {mask};
  return x * mask;
}

void DropoutStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], f.training ? grad * f.saved[number][0] : grad);
}

// ---- sum and concatenation ----------------------------------------------------------------------

at::Tensor AddStep::forward(Frame& f) const { return f.values[inputs[0]] + f.values[inputs[1]]; }
void AddStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], grad);
  f.add_grad(inputs[1], grad);
}

at::Tensor ConcatStep::forward(Frame& f) const {
  return at::cat({f.values[inputs[0]], f.values[inputs[1]]}, 1);
}
void ConcatStep::backward(Frame& f, const at::Tensor& grad) const {
  const auto format = grad.suggest_memory_format();
  const std::int64_t a = first_channels;
  f.add_grad(inputs[0], grad.narrow(1, 0, a).contiguous(format));
  f.add_grad(inputs[1], grad.narrow(1, a, grad.size(1) - a).contiguous(format));
}

}  // namespace sluice
