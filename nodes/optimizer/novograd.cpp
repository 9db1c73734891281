// novograd: MONAI's Novograd (monai.optimizers.Novograd 1.6.1).
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Novograd final : Optimizer {
  struct Params : MomentParams {
    bool grad_averaging = false;
    Params() { betas = {0.9, 0.98}; }
  } p;

  static Spec spec() {
    Spec s("novograd", "Adam-like steps with one second moment a tensor, the gradient's norm.");
    return add_moment_params<Params>(s).param("grad_averaging", &Params::grad_averaging,
                                              "Scales the gradient by 1 - beta 1.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  void make_moments(Slot& s) const override {
    s.first = at::zeros_like(s.weight);
    s.second = at::zeros({1}, s.weight.options());
    if (p.amsgrad) s.largest = at::zeros({1}, s.weight.options());
  }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(kernels::OptimKind::novograd, p);
    r.grad_averaging = p.grad_averaging;
    return r;
  }
};

const Register<Novograd> registered;

}  // namespace
}  // namespace sluice
