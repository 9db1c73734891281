// lars: You, Gitman, Ginsburg 2017, "Large Batch Training of Convolutional Networks".
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Lars final : Optimizer {
  struct Params : OptimizerParams {
    double momentum = 0.9, trust_coefficient = 0.001, eps = 1e-8;
    bool nesterov = false;
  } p;

  static Spec spec() {
    Spec s("lars",
           "SGD with a rate of its own for each tensor, by the norms of its weights and of its "
           "gradient: for large batches.");
    return add_optimizer_params<Params>(s)
        .param("momentum", &Params::momentum, "Share of the last step's direction.")
        .range(0, 1)
        .param("trust_coefficient", &Params::trust_coefficient,
               "The rate's factor is this times |w| / (|g| + weight_decay |w| + eps); 1 where "
               "either norm is 0.")
        .above(0)
        .param("eps", &Params::eps, "Added to the denominator.")
        .at_least(0)
        .param("nesterov", &Params::nesterov, "Steps along g + momentum b.")
        .needs({"momentum", "cycle_momentum"});
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.kind = kernels::OptimKind::lars;
    r.momentum = p.momentum;
    r.trust_coefficient = p.trust_coefficient;
    r.eps = p.eps;
    r.nesterov = p.nesterov;
    return r;
  }
};

const Register<Lars> registered;

}  // namespace
}  // namespace sluice
