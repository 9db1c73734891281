// The optimizers' updates: one pass over each tensor that reads the gradient once and writes
// weight and moments in place.
//
// Invariant: an element's new value depends on that element alone (Novograd: and on its tensor's
// gradient norm, summed in blocks of a fixed size), so results do not depend on the number of
// threads. CPU tensors are float32 and contiguous; others take LibTorch's operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice {

// A weight with its gradient (undefined: nothing to do) and moments (undefined where not used).
struct Slot {
  at::Tensor weight, grad;
  at::Tensor first, second, largest;  // Novograd's second and largest have one element
};

// buf = momentum buf + g + wd w;  w -= lr (nesterov ? g + momentum buf : buf)
struct SgdStep {
  double lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
void sgd_step(std::vector<Slot>& slots, const SgdStep& s);

// Adam (Kingma, Ba 2015), AMSGrad (Reddi, Kale, Kumar 2018), AdamW where `decoupled` (Loshchilov,
// Hutter 2019); `step` counts from 1.
struct AdamStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;
  std::int64_t step = 1;
};
void adam_step(std::vector<Slot>& slots, const AdamStep& s);

// Novograd (Ginsburg et al. 2019) with MONAI's terms: one second moment a tensor.
struct NovogradStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.98, eps = 1e-8, weight_decay = 0;
  bool grad_averaging = false;
};
void novograd_step(std::vector<Slot>& slots, const NovogradStep& s);

// The norm over all gradients.
double grad_norm(const std::vector<Slot>& slots);

}  // namespace sluice
