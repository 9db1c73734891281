// asgd: torch.optim.ASGD 2.11 (Polyak, Juditsky 1992). The mean of the weights is kept beside them,
// as "exp_avg_sq." of a checkpoint; what predicts with a mean is ema or swa.
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Asgd final : Optimizer {
  struct Params : OptimizerParams {
    double lambd = 1e-4, alpha = 0.75, t0 = 1e6;
    Params() { lr = 0.01; }
  } p;

  static Spec spec() {
    Spec s(
        "asgd",
        "SGD whose rate is lr / (1 + lambd lr t)^alpha, with the mean of its weights beside it.");
    return add_optimizer_params<Params>(s)
        .param("lambd", &Params::lambd, "Decay of the weights and of the rate.")
        .at_least(0)
        .param("alpha", &Params::alpha, "The rate's exponent.")
        .at_least(0)
        .param("t0", &Params::t0, "Steps after which the mean begins.")
        .at_least(0);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.kind = kernels::OptimKind::asgd;
    r.lambd = p.lambd;
    r.alpha = p.alpha;
    r.t0 = p.t0;
    return r;
  }
};

const Register<Asgd> registered;

}  // namespace
}  // namespace sluice
