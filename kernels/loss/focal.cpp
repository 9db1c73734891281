#include "kernels/loss/focal.h"

#include <ATen/ATen.h>

#include "kernels/image/one_hot.h"
#include "kernels/loss/dice_ce.h"

namespace sluice {

at::Tensor focal_loss(const at::Tensor& pred, const at::Tensor& label, const Focal& p) {
  const std::int64_t classes = pred.size(1);
  at::Tensor x = pred.to(pred.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  at::Tensor t = p.to_onehot_y && classes > 1 ? one_hot(truncated(label), classes, x.scalar_type())
                                              : label.to(x.scalar_type());
  if (!p.include_background && classes > 1) {
    x = x.narrow(1, 1, classes - 1);
    t = t.narrow(1, 1, classes - 1);
  }
  const at::Tensor entropy =
      at::binary_cross_entropy_with_logits(x, t, {}, {}, at::Reduction::None);
  // log(1 - p_t) = log sigmoid(-x) where t is 1, log sigmoid(x) where it is 0
  at::Tensor loss = (at::log_sigmoid(-x * (2 * t - 1)) * p.gamma).exp() * entropy;
  if (p.alpha) loss = loss * (t * *p.alpha + (1 - t) * (1 - *p.alpha));
  if (!p.weight.empty()) {
    std::vector<double> by_class = p.weight;
    if (by_class.size() == 1) by_class.assign(static_cast<std::size_t>(x.size(1)), by_class[0]);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
    shape[1] = x.size(1);
    loss = loss *
           at::tensor(by_class, at::kDouble).to(loss.options(), /*non_blocking=*/true).view(shape);
  }
  if (p.mean) return loss.mean();
  std::vector<std::int64_t> spatial;
  for (std::int64_t d = 2; d < loss.dim(); ++d) spatial.push_back(d);
  return (spatial.empty() ? loss : loss.mean(spatial)).sum();
}

}  // namespace sluice
