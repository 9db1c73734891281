// novograd: MONAI's Novograd (monai.optimizers.Novograd 1.6.1).
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Novograd final : Optimizer {
  struct Params : MomentParams {
    bool grad_averaging = false, amsgrad = false;
    Params() { betas = {0.9, 0.98}; }
  } p;

  static Spec spec() {
    Spec s("novograd", "Adam-like steps with one second moment a tensor, the gradient's norm.");
    return add_moment_params<Params>(s)
        .param("amsgrad", &Params::amsgrad, "Divides by the largest second moment so far.")
        .param("grad_averaging", &Params::grad_averaging, "Scales the gradient by 1 - beta 1.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(kernels::OptimKind::novograd, p);
    r.grad_averaging = p.grad_averaging;
    r.amsgrad = p.amsgrad;
    return r;
  }
};

const Register<Novograd> registered;

}  // namespace
}  // namespace sluice
