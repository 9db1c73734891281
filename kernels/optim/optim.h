// The optimizers' updates: one pass over the gradients decides (OptimState: unscaling, clipping,
// whether a gradient is not finite), a second writes weights and moments in place.
//
// Invariant: an element's new value depends on that element and the decision alone (Novograd: and
// on its tensor's gradient norm), and norms are summed in blocks of a fixed size, so results do not
// depend on the number of threads. A step with a gradient that is not finite changes nothing but
// the state. Contiguous float32 tensors of the host and of a CUDA device have kernels of their own;
// others take LibTorch's operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "kernels/optim/optim_value.h"

namespace sluice {

// A weight with its gradient (undefined: nothing to do) and moments (undefined where not used).
struct Slot {
  at::Tensor weight, grad;
  at::Tensor first, second, largest;  // Novograd's second and largest have one element
};

// An OptimState as a tensor of bytes where the weights are: a step on a CUDA device reads and
// writes it there, and waits for nothing. And that device's list of the tensors.
class OptimMemory {
 public:
  OptimMemory();
  kernels::OptimState read() const;  // waits for the device
  void write(const kernels::OptimState& state);
  void move_to(const at::Device& device);
  at::Tensor loss_scale() const;  // one float32 of it, no copy
  // What the last step read beside its slots: a step that is repeated from a recording reads it
  // again. Null on the host.
  std::shared_ptr<const void> plan() const { return plan_; }

 private:
  struct Plan;
  friend void optim_step(std::vector<Slot>&, const kernels::OptimRule&, OptimMemory&);
  static void device_step(const std::vector<Slot>&, const kernels::OptimRule&, OptimMemory&);
  at::Tensor bytes_;
  std::shared_ptr<const Plan> plan_;
};

// Whether two tensors of one shape lie in memory in the same order of elements, both without gaps.
// Strides of axes of one element say nothing: cuDNN's gradients have others there than weights.
bool same_order(const at::Tensor& a, const at::Tensor& b);

// One step of all weights, g being the gradient, unscaled and clipped, plus weight_decay w:
//   sgd       b = momentum b + g;  w -= lr (nesterov ? g + momentum b : b)
//   adam      Kingma, Ba 2015; AMSGrad: Reddi, Kale, Kumar 2018; decoupled: AdamW, Loshchilov,
//             Hutter 2019
//   novograd  Ginsburg et al. 2019 with MONAI's terms: one second moment a tensor
void optim_step(std::vector<Slot>& slots, const kernels::OptimRule& rule, OptimMemory& memory);

}  // namespace sluice
