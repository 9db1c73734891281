#include "kernels/net/pointwise_step.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor ReluStep::forward(Frame& f) const { return at::relu(f.values[inputs[0]]); }

void ReluStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], at::threshold_backward(grad, f.values[output], 0));
}

at::Tensor AddStep::forward(Frame& f) const { return f.values[inputs[0]] + f.values[inputs[1]]; }
void AddStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], grad);
  f.add_grad(inputs[1], grad);
}

}  // namespace sluice
