#include "kernels/net/dense_step.h"

#include <ATen/ATen.h>

namespace sluice {
namespace {

at::Tensor rows_of(const at::Tensor& t) {
  return t.dim() == 2 ? t : t.reshape({-1, t.size(t.dim() - 1)});
}

}  // namespace

std::vector<int> LinearStep::parameters() const {
  return bias >= 0 ? std::vector<int>{weight, bias} : std::vector<int>{weight};
}

// The matrix as it is multiplied, for all of a pass's frames and both of its ways. One frame, which
// mostly reads weights, has it when it is needed: all of them at once would be half as much again.
std::shared_ptr<const void> LinearStep::prepare(const Preparation& pass) const {
  const at::Tensor& own = pass.weights[weight];
  if (own.scalar_type() == pass.net.compute || (pass.keep && pass.for_one)) return nullptr;
  return std::make_shared<const at::Tensor>(own.to(pass.net.compute));
}

at::Tensor LinearStep::matrix(const Frame& f, at::ScalarType type) const {
  const auto* prepared = static_cast<const at::Tensor*>(f.replica->prepared[number].get());
  return prepared && prepared->scalar_type() == type ? *prepared : f.weight(weight).to(type);
}

at::Tensor LinearStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const at::Tensor w = matrix(f, x.scalar_type()).t();
  const at::Tensor y = bias >= 0 ? at::addmm(f.weight(bias).to(x.scalar_type()), rows_of(x), w)
                                 : at::mm(rows_of(x), w);
  return y.view(output_size({x.sizes().vec()}));
}

void LinearStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const at::Tensor g = rows_of(grad);
  f.add_matrix_grad(weight, g, rows_of(x));
  if (bias >= 0 && f.trains[bias]) f.add_parameter_grad(bias, g.sum(0, false, at::kFloat));
  if (f.wants[inputs[0]])
    f.add_grad(inputs[0], at::mm(g, matrix(f, grad.scalar_type())).view(x.sizes()));
}

}  // namespace sluice
