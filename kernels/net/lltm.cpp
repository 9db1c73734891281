#include "kernels/net/lltm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/base/team.h"

namespace sluice {
namespace {

// a [N, F] times b [M, F] transposed, by blocks of b's rows, each on one thread. MKL, asked for the
// whole with several threads, adds in another order than with one on CPUs without AVX-512.
at::Tensor by_blocks(const at::Tensor& a, const at::Tensor& b) {
  constexpr std::int64_t block = 64;
  at::Tensor out = at::empty({a.size(0), b.size(0)}, a.options());
  const std::int64_t blocks = (b.size(0) + block - 1) / block;
  const int threads = static_cast<int>(std::clamp<std::int64_t>(team_size(), 1, blocks));
  one_thread_each(threads, [&](int t) {
    for (std::int64_t i = blocks * t / threads; i < blocks * (t + 1) / threads; ++i) {
      const std::int64_t n = std::min(block, b.size(0) - i * block);
      out.narrow(1, i * block, n).copy_(at::mm(a, b.narrow(0, i * block, n).t()));
    }
  });
  return out;
}

struct Product final : torch::autograd::Function<Product> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& a,
                            const at::Tensor& b) {
    context->save_for_backward({a, b});
    return by_blocks(a, b);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1];
    return {by_blocks(grads[0], b.t()), by_blocks(grads[0].t(), a.t())};
  }
};

}  // namespace

LltmState lltm(const at::Tensor& x, const LltmState& old, const at::Tensor& weights,
               const at::Tensor& bias) {
  const at::Tensor all = at::cat({old.h, x}, 1);
  const at::Tensor sum =
      all.is_cpu() ? Product::apply(all, weights) + bias : at::addmm(bias, all, weights.t());
  const auto gates = sum.chunk(3, 1);
  const at::Tensor cell = at::addcmul(old.cell, at::elu(gates[2]), at::sigmoid(gates[0]));
  return {at::mul(at::tanh(cell), at::sigmoid(gates[1])), cell};
}

}  // namespace sluice
