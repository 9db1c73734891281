// A recurrent cell without a forget gate: MONAI's LLTM, by LibTorch's operations and so on its
// tape.
#pragma once

#include <ATen/Functions.h>

namespace sluice {

struct LltmState {
  at::Tensor h, cell;  // [N, state]
};

// x [N, features], weights [3 state, state + features], bias [3 state]:
// [i, o, c] = [h, x] weights^T + bias; cell + elu(c) sigmoid(i); tanh(new cell) sigmoid(o).
inline LltmState lltm(const at::Tensor& x, const LltmState& old, const at::Tensor& weights,
                      const at::Tensor& bias) {
  const auto gates = at::addmm(bias, at::cat({old.h, x}, 1), weights.t()).chunk(3, 1);
  const at::Tensor cell = at::addcmul(old.cell, at::elu(gates[2]), at::sigmoid(gates[0]));
  return {at::mul(at::tanh(cell), at::sigmoid(gates[1])), cell};
}

}  // namespace sluice
