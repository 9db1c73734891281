// adam and adamw: PyTorch's torch.optim.Adam and AdamW.
#include <ATen/ops/zeros_like.h>

#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

template <bool decoupled>
struct Adam final : Optimizer {
  struct Params : MomentParams {
    Params() { weight_decay = decoupled ? 0.01 : 0; }
  } p;

  static Spec spec() {
    Spec s = decoupled
                 ? Spec("adamw",
                        "Adam with decoupled weight decay: w -= lr weight_decay w beside the step.")
                 : Spec("adam", "Adam: steps along the first moment over the root of the second.");
    return add_moment_params<Params>(s);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  void make_moments(Slot& s) const override {
    s.first = at::zeros_like(s.weight);
    s.second = at::zeros_like(s.weight);
    if (p.amsgrad) s.largest = at::zeros_like(s.weight);
  }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(kernels::OptimKind::adam, p);
    r.decoupled = decoupled;
    return r;
  }
};

const Register<Adam<false>> adam;
const Register<Adam<true>> adamw;

}  // namespace
}  // namespace sluice
