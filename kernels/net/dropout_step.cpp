#include "kernels/net/dropout_step.h"

#include <ATen/ATen.h>

#include "engine/base/random.h"
#include "kernels/net/dropout.h"

namespace sluice {

kernels::DropoutRule DropoutStep::rule(const Frame& f) const {
  return kernels::DropoutRule::of(p, mix(f.key + static_cast<std::uint64_t>(number)),
                                  f.first_sample);
}

at::Tensor DropoutStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  return f.training ? dropout(x, rule(f)) : x;
}

void DropoutStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], f.training ? dropout(grad, rule(f)) : grad);
}

at::Tensor MaskStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  if (!f.training) return x;
  // Each of several such steps on samples has draws of its own.
  const std::uint64_t key = of == Of::sample ? mix(f.key + static_cast<std::uint64_t>(number))
                            : stream == 0    ? f.key
                                             : mix(f.key + stream);
  Size shape{x.size(0), of == Of::channel ? x.size(1) : 1};
  at::Tensor mask = at::empty(shape, at::kFloat);
  auto* m = mask.mutable_data_ptr<float>();
  const std::int64_t first = f.first_sample * shape[1];
  const float kept = static_cast<float>(1 / (1 - p));
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    m[i] = unit_float(philox(static_cast<std::uint64_t>(first + i), 0, key).v[0]) < p ? 0.f : kept;
  shape.resize(static_cast<std::size_t>(x.dim()), 1);
  mask = mask.view(shape).to(x.options(), /*non_blocking=*/true);
  if (f.keep) f.saved[number] = {mask};
  return x * mask;
}

void MaskStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], f.training ? grad * f.saved[number][0] : grad);
}

// The tokens whose draws are the smallest.
at::Tensor ChoiceStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const std::int64_t tokens = x.size(1);
  at::Tensor draws = at::empty({x.size(0), tokens}, at::kDouble);
  auto* d = draws.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < draws.numel(); ++i)
    d[i] = philox(static_cast<std::uint64_t>(f.first_sample * tokens + i), 3, f.key).v[0];
  return draws.argsort(/*stable=*/true, /*dim=*/1).narrow(1, 0, count).to(x.device(), at::kFloat);
}

at::Tensor NormalStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  if (!f.training) return at::full_like(x, at_rest);
  const std::uint64_t key = mix(f.key + static_cast<std::uint64_t>(number));
  at::Tensor drawn = at::empty(x.sizes(), at::kFloat);
  auto* d = drawn.mutable_data_ptr<float>();
  const std::int64_t each = x.numel() / x.size(0);
  for (std::int64_t i = 0; i < drawn.numel(); ++i) {
    const Block4 bits = philox(static_cast<std::uint64_t>(f.first_sample * each + i), 2, key);
    float other;
    normal_pair(bits.v[0], bits.v[1], d[i], other);
  }
  return f.net->laid_out(drawn.to(x.options()));
}

}  // namespace sluice
