#include "kernels/net/quantize_step.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor QuantizeStep::forward(Frame& f) const {
  // Made again: the table has followed since.
  const bool again = f.keep && !f.saved[number].empty();
  if (again) return f.saved[number][0];
  const at::Tensor x = f.values[inputs[0]].to(at::kFloat);
  const at::Tensor& table = f.replica->buffers[embedding];
  const at::Tensor last = x.movedim(1, -1), rows = last.reshape({-1, x.size(1)});
  const at::Tensor distances = rows.square().sum(1, /*keepdim=*/true) + table.square().sum(1) -
                               2 * at::matmul(rows, table.t());
  const at::Tensor nearest = distances.argmin(1);
  const at::Tensor y = f.net->laid_out(
      table.index_select(0, nearest).view(last.sizes()).movedim(-1, 1).to(f.net->compute));
  if (f.training && f.leads) follow(f, rows, nearest);
  if (f.keep) f.saved[number] = {y};
  return y;
}

// With Laplace's smoothing of the rows' shares.
void QuantizeStep::follow(const Frame& f, const at::Tensor& rows, const at::Tensor& nearest) const {
  const auto& buffers = f.replica->buffers;
  const at::Tensor &table = buffers[embedding], &size = buffers[cluster_size], &sum = buffers[sums];
  const at::Tensor assigned =
      at::zeros({rows.size(0), table.size(0)}, rows.options()).scatter_(1, nearest.unsqueeze(1), 1);
  size.mul_(decay).add_(assigned.sum(0), 1 - decay);
  sum.mul_(decay).add_(at::matmul(assigned.t(), rows), 1 - decay);
  const at::Tensor all = size.sum();
  const at::Tensor share =
      (size + epsilon) / (all + static_cast<double>(table.size(0)) * epsilon) * all;
  table.copy_(sum / share.unsqueeze(1));
}

}  // namespace sluice
