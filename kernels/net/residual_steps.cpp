#include "kernels/net/residual_steps.h"

#include <ATen/ATen.h>

#include "engine/base/random.h"

namespace sluice {

// ---- building -----------------------------------------------------------------------------------

int Program::group_norm_relu(int x, const std::string& name, std::int64_t channels,
                             std::int64_t groups) {
  auto step = std::make_unique<GroupNormReluStep>();
  step->inputs = {x};
  step->keeps = {true};
  step->groups = groups;
  step->gamma = parameter(name + ".weight", {channels}, Init::ones, 0);
  step->beta = parameter(name + ".bias", {channels}, Init::zeros, 0);
  return append(std::move(step));
}

int Program::doubled(int x) {
  auto step = std::make_unique<DoubleStep>();
  step->inputs = {x};
  step->keeps = {false};
  return append(std::move(step));
}

int Program::dropout_channels(int x, double p) {
  draws_ = true;
  auto step = std::make_unique<ChannelDropoutStep>();
  step->inputs = {x};
  step->keeps = {false};
  step->p = p;
  return append(std::move(step));
}

// ---- group norm and ReLU ------------------------------------------------------------------------

// Its output tells the ReLU's slope and is kept in any case, by the convolution that reads it.
at::Tensor GroupNormReluStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const std::int64_t n = x.size(0), c = x.size(1);
  const auto type = x.scalar_type();
  auto [y, mean, rstd] = at::native_group_norm(x, f.weight(gamma).to(type), f.weight(beta).to(type),
                                               n, c, x.numel() / (n * c), groups, eps);
  y.relu_();
  if (f.keep) f.saved[number] = {y, mean, rstd};
  return y;
}

void GroupNormReluStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const auto& saved = f.saved[number];
  const std::int64_t n = x.size(0), c = x.size(1);
  const auto [dx, dgamma, dbeta] = at::native_group_norm_backward(
      at::threshold_backward(grad, saved[0], 0), x, saved[1], saved[2],
      f.weight(gamma).to(x.scalar_type()), n, c, x.numel() / (n * c), groups, {true, true, true});
  f.add_parameter_grad(gamma, dgamma);
  f.add_parameter_grad(beta, dbeta);
  f.add_grad(inputs[0], f.program->laid_out(dx));
}

// ---- doubling -----------------------------------------------------------------------------------

Step::Size DoubleStep::output_size(const std::vector<Size>& in) const {
  Size size = in[0];
  for (std::size_t d = 2; d < size.size(); ++d) size[d] *= 2;
  return size;
}

at::Tensor DoubleStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const Size size = output_size({x.sizes().vec()});
  const at::IntArrayRef extents = at::IntArrayRef(size).slice(2);
  return f.program->laid_out(x.dim() == 5 ? at::upsample_trilinear3d(x, extents, false)
                                          : at::upsample_bilinear2d(x, extents, false));
}

// Along an axis 2i is 3/4 of i and 1/4 of i - 1, 2i + 1 is 3/4 of i and 1/4 of i + 1; beyond the
// ends stands the last one.
at::Tensor doubling_backward(at::Tensor grad) {
  for (std::int64_t d = 2; d < grad.dim(); ++d) {
    const at::Tensor even = grad.slice(d, 0, std::nullopt, 2),
                     odd = grad.slice(d, 1, std::nullopt, 2);
    at::Tensor sum = even.add(odd).mul_(0.75);
    const std::int64_t n = sum.size(d) - 1;
    sum.narrow(d, 0, n).add_(even.narrow(d, 1, n), 0.25);
    sum.narrow(d, 1, n).add_(odd.narrow(d, 0, n), 0.25);
    sum.select(d, 0).add_(even.select(d, 0), 0.25);
    sum.select(d, n).add_(odd.select(d, n), 0.25);
    grad = std::move(sum);
  }
  return grad;
}

void DoubleStep::backward(Frame& f, const at::Tensor& grad) const {
  if (grad.is_cuda()) return f.add_grad(inputs[0], f.program->laid_out(doubling_backward(grad)));
  const at::IntArrayRef extents = grad.sizes().slice(2);
  Size size = grad.sizes().vec();
  for (std::size_t d = 2; d < size.size(); ++d) size[d] /= 2;
  f.add_grad(inputs[0],
             f.program->laid_out(
                 grad.dim() == 5 ? at::upsample_trilinear3d_backward(grad, extents, size, false)
                                 : at::upsample_bilinear2d_backward(grad, extents, size, false)));
}

// ---- dropout of channels ------------------------------------------------------------------------

// A pure function of (key, sample, channel).
at::Tensor ChannelDropoutStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  if (!f.training) return x;
  Size shape{x.size(0), x.size(1)};
  at::Tensor mask = at::empty(shape, at::kFloat);
  auto* m = mask.mutable_data_ptr<float>();
  const std::int64_t first = f.first_sample * x.size(1);
  const float kept = static_cast<float>(1 / (1 - p));
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    m[i] =
        unit_float(philox(static_cast<std::uint64_t>(first + i), 0, f.key).v[0]) < p ? 0.f : kept;
  shape.resize(static_cast<std::size_t>(x.dim()), 1);
  mask = mask.view(shape).to(x.options(), /*non_blocking=*/true);
  if (f.keep) f.saved[number] = {mask};
  return x * mask;
}

void ChannelDropoutStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], f.training ? grad * f.saved[number][0] : grad);
}

}  // namespace sluice
