// The optimizers' updates: one pass over the gradients decides (OptimState: unscaling, clipping,
// whether a gradient is not finite), a second writes weights and moments in place.
//
// Invariant: an element's new value depends on that element and the decision alone (Novograd: and
// on its tensor's gradient norm), and norms are summed in blocks of a fixed size, so results do not
// depend on the number of threads. A step with a gradient that is not finite changes nothing but
// the state. Tensors are float32 without gaps, a weight's in one order; of others a copy is made.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "kernels/optim/optim_value.h"

namespace sluice {

constexpr std::int64_t optim_block = 16384;  // elements of a tensor that are summed alone

// A weight with its gradient (undefined: nothing to do) and moments (undefined where not used).
struct Slot {
  // Of a part: [begin, end) of the weight as it lies in memory is what the gradient and the moments
  // are of, whole blocks and the weight's rest. The others' are done elsewhere.
  std::int64_t begin = 0, end = -1;  // -1: all of it
  bool is_part() const { return end >= 0; }
  at::Tensor weight, grad;
  at::Tensor first, second, third;  // OptimRule::uses_first() and so on
  double lr = 0, weight_decay = 0;  // before the schedule
  std::int64_t since = 0;           // steps that were taken before it began
};

// Gives the slot what the rule's moments begin with: zeros, or `second` for the second.
void add_moments(Slot& slot, const kernels::OptimRule& rule, double second = 0);

// Of numbers that are 0 where they are not this rank's, everyone's.
using Unite = std::function<void(std::vector<double>& numbers)>;

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
  friend void optim_step(std::vector<Slot>&, const kernels::OptimRule&, OptimMemory&, const Unite&);
  static void device_step(const std::vector<Slot>&, const kernels::OptimRule&, OptimMemory&);
  at::Tensor bytes_;
  std::shared_ptr<const Plan> plan_;
};

// Whether two tensors of one shape lie in memory in the same order of elements, both without gaps.
// Strides of axes of one element say nothing: cuDNN's gradients have others there than weights.
bool same_order(const at::Tensor& a, const at::Tensor& b);

// One step of all weights, g being the gradient, unscaled and clipped, plus weight_decay w; m, v
// and a are the slot's first, second and third:
//   sgd       m = momentum m + (1 - dampening) g;  w -= lr (nesterov ? g + momentum m : m)
//   adam      Kingma, Ba 2015; AMSGrad (a: the largest v): Reddi, Kale, Kumar 2018; decoupled:
//             AdamW, Loshchilov, Hutter 2019
//   adamax    Adam with v = max(beta2 v, |g| + eps), ib.
//   nadam     Dozat 2016;  radam  Liu et al. 2020: both with torch's terms, also decoupled
//   novograd  Ginsburg et al. 2019 with MONAI's terms: one v a tensor
//   rmsprop   Tieleman, Hinton 2012; centered (a: the mean of g): Graves 2013; beta2 is its alpha
//   adagrad   Duchi, Hazan, Singer 2011: v += g^2
//   adadelta  Zeiler 2012: m is the mean of squared steps; beta2 is its rho
//   lion      Chen et al. 2023: w -= lr sign(beta1 m + (1 - beta1) g), decay decoupled
//   asgd      Polyak, Juditsky 1992 with torch's terms: v is the mean of the weights
//   lars      You, Gitman, Ginsburg 2017: m = momentum m + (g + weight_decay w) trust |w| /
//             (|g| + weight_decay |w|);  w -= lr m
//   lamb      You et al. 2020: Adam's direction, plus weight_decay w, times |w| / |direction|
// Slots that are parts are on the host, and need `unite`.
void optim_step(std::vector<Slot>& slots, const kernels::OptimRule& rule, OptimMemory& memory,
                const Unite& unite = {});

}  // namespace sluice
