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

at::Tensor LinearStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const at::Tensor w = f.weight(weight).to(x.scalar_type()).t();
  const at::Tensor y = bias >= 0 ? at::addmm(f.weight(bias).to(x.scalar_type()), rows_of(x), w)
                                 : at::mm(rows_of(x), w);
  return y.view(output_size({x.sizes().vec()}));
}

void LinearStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const at::Tensor g = rows_of(grad);
  f.add_parameter_grad(weight, at::mm(g.t(), rows_of(x)));
  if (bias >= 0) f.add_parameter_grad(bias, g.sum(0, false, at::kFloat));
  if (!f.wants[inputs[0]]) return;
  f.add_grad(inputs[0], at::mm(g, f.weight(weight).to(grad.scalar_type())).view(x.sizes()));
}

}  // namespace sluice
