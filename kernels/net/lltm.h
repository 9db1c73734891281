// A recurrent cell without a forget gate: MONAI's LLTM, by LibTorch's operations and so on its
// tape.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

struct LltmState {
  at::Tensor h, cell;  // [N, state]
};

// x [N, features], weights [3 state, state + features], bias [3 state]:
// [i, o, c] = [h, x] weights^T + bias; cell + elu(c) sigmoid(i); tanh(new cell) sigmoid(o).
// On the CPU the number of threads is in no bit of it, nor of its gradients.
LltmState lltm(const at::Tensor& x, const LltmState& old, const at::Tensor& weights,
               const at::Tensor& bias);

}  // namespace sluice
