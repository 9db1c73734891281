#include "kernels/loss/class_sums.h"

#include <ATen/ATen.h>

#include "kernels/base/autograd.h"
#include "kernels/loss/softmax_sums.h"

namespace sluice {
namespace {

// P and I on the tape; a sum [groups, C] has a slope for each class, 0 for those that do not count.
struct FusedClassSums {
  SoftmaxSums sums;
  std::int64_t classes, first;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    std::vector<kernels::DiceCeSlopes> slopes(static_cast<std::size_t>(sums.groups()));
    const auto fill = [&](const at::Tensor& grad,
                          float(kernels::DiceCeSlopes::*by)[kernels::dice_classes]) {
      if (!grad.defined()) return;
      const at::Tensor g =
          grad.to(at::kFloat).reshape({sums.groups(), classes - first}).contiguous();
      for (int k = 0; k < sums.groups(); ++k)
        for (std::int64_t c = first; c < classes; ++c)
          (slopes[static_cast<std::size_t>(k)].*by)[c] =
              g.const_data_ptr<float>()[k * (classes - first) + c - first];
    };
    fill(grads[0], &kernels::DiceCeSlopes::by_p);
    fill(grads[1], &kernels::DiceCeSlopes::by_i);
    return {sums.gradient(slopes, 0)};
  }
};

ClassSums fused(const Target& t, double voxels) {
  kernels::DiceCeRule rule;
  rule.batch = t.options.batch;
  rule.classes = static_cast<int>(t.classes());
  FusedClassSums pass{SoftmaxSums(t.pred.detach(), t.label, rule), t.classes(), t.first()};
  const std::vector<double> all = pass.sums.sums();
  const std::int64_t C = t.classes();
  const at::Tensor table =
      at::tensor(all, at::kDouble).view({pass.sums.groups(), 3 * C + 1}).to(at::kFloat);
  const auto part = [&](std::int64_t number) {
    const at::Tensor sums = table.narrow(1, number * C + t.first(), t.counted());
    return (rule.batch ? sums[0] : sums).clone();  // the tape takes no views
  };
  ClassSums s{part(1), part(0), part(2), voxels};
  attach("ClassSumsBackward", {s.prob, s.overlap}, {t.pred}, std::move(pass));
  return s;
}

}  // namespace

bool counts_plainly(const Target& t) {
  const TargetOptions& o = t.options;
  return o.softmax && !o.ignore_index && !t.mask.defined() && !o.soft_label && o.to_onehot_y &&
         t.classes() > 1 && t.classes() <= kernels::dice_classes && t.label.size(1) == 1;
}

ClassSums class_sums(const Target& t) {
  const std::int64_t apart = t.options.batch ? 1 : t.pred.size(0);
  const auto voxels = static_cast<double>(t.pred.numel() / t.classes() / apart);
  if (counts_plainly(t) && t.pred.is_cpu() && t.pred.scalar_type() == at::kFloat)
    return fused(t, voxels);
  return {t.overlap(), t.mass(t.prob()), t.mass(t.truth()), voxels};
}

}  // namespace sluice
