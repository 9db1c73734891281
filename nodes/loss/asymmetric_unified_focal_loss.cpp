// asymmetric_unified_focal_loss: MONAI's AsymmetricUnifiedFocalLoss (Yeung et al. 2022).
#include "kernels/loss/sum_of_terms.h"
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct UnifiedFocalLossParams : TermLossParams {
  double weight = 0.5, gamma = 0.5, delta = 0.7;
};

struct UnifiedFocalLoss final : TermLoss<UnifiedFocalLossParams> {
  static Spec spec() {
    Spec s("asymmetric_unified_focal_loss",
           "Focal cross entropy and focal Tversky of two classes; the output holds probabilities.");
    add_label_loss<Params>(s);
    add_to_onehot(s);
    add_ignore_index(s);
    return s.param("weight", &Params::weight, "Share of the cross entropy.")
        .range(0, 1)
        .param("gamma", &Params::gamma,
               "How much less a voxel of the background counts that is right already.")
        .param("delta", &Params::delta, "Weight of the foreground, and of what it lacks.")
        .range(0, 1);
  }
  at::Tensor of(const Target& t) const override {
    if (t.classes() > 2)
      throw Error(Exit::usage, "asymmetric_unified_focal_loss is of two classes, not of " +
                                   std::to_string(t.classes()));
    constexpr double least = 1e-7;
    const auto of_two = [&](const at::Tensor& x) {
      if (t.classes() == 2) return x;
      return at::cat({t.options.ignore_index ? t.counts() - x : 1 - x, x}, 1);
    };
    const at::Tensor y = of_two(t.truth());
    // The focal cross entropy of the background, and of the foreground.
    const auto back = [&](const at::Tensor& x) {
      const at::Tensor b = x.select(1, 0);
      const at::Tensor entropy = (1 - b).pow(p.gamma) * (-y.select(1, 0) * b.log());
      return p.weight * (1 - p.delta) / 2 * entropy.mean();
    };
    const auto fore = [&](const at::Tensor& x) {
      return p.weight * p.delta / 2 * (-y.select(1, 1) * x.select(1, 1).log()).mean();
    };
    const auto tversky = [&](const at::Tensor& x) {
      const at::Tensor tp = t.sum(x * y), fn = t.sum(y) - tp, fp = t.sum(x) - tp;
      const at::Tensor lacks = 1 - (tp + least) / (tp + p.delta * fn + (1 - p.delta) * fp + least);
      return (1 - p.weight) *
             at::stack({lacks.select(1, 0), lacks.select(1, 1).pow(1 - p.gamma)}).mean();
    };
    return sum_of_terms(of_two(t.prob()).clamp(least, 1 - least), {back, fore, tversky});
  }
};

const Register<UnifiedFocalLoss> registered;

}  // namespace
}  // namespace sluice
