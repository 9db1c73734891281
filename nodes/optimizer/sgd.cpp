// sgd: stochastic gradient descent with PyTorch's terms (torch.optim.SGD 2.11).
#include "engine/base/error.h"
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Sgd final : Optimizer {
  struct Params : OptimizerParams {
    double momentum = 0, dampening = 0;
    bool nesterov = false;
  } p;

  static Spec spec() {
    Spec s("sgd", "Stochastic gradient descent: b = momentum b + g, w -= lr b.");
    return add_optimizer_params<Params>(s)
        .param("momentum", &Params::momentum, "Share of the last step's direction.")
        .range(0, 1)
        .param("dampening", &Params::dampening, "b gets 1 - dampening of g after the first step.")
        .range(0, 1)
        .param("nesterov", &Params::nesterov, "Steps along g + momentum b.")
        .needs({"momentum", "cycle_momentum"});
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    if (p.nesterov && p.dampening != 0)
      throw Error(Exit::usage, "nesterov needs dampening 0, as in torch.optim.SGD");
    kernels::OptimRule r;
    r.momentum = p.momentum;
    r.dampening = p.dampening;
    r.nesterov = p.nesterov;
    return r;
  }
};

const Register<Sgd> registered;

}  // namespace
}  // namespace sluice
