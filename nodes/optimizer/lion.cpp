// lion: Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2.
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Lion final : Optimizer {
  struct Params : OptimizerParams {
    std::vector<double> betas{0.9, 0.99};
    Params() { lr = 1e-4; }
  } p;

  static Spec spec() {
    Spec s("lion", "Steps of one size along the sign of the momentum; one number a weight.");
    return add_optimizer_params<Params>(s)
        .param("betas", &Params::betas, "Shares of the momentum in the step and in itself.")
        .range(0, 1)
        .length(2, 2);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.kind = kernels::OptimKind::lion;
    r.beta1 = p.betas[0];
    r.beta2 = p.betas[1];
    return r;
  }
};

const Register<Lion> registered;

}  // namespace
}  // namespace sluice
