// sgd: stochastic gradient descent with PyTorch's terms (torch.optim.SGD).
#include <ATen/ops/zeros_like.h>

#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Sgd final : Optimizer {
  struct Params : OptimizerParams {
    double momentum = 0;
    bool nesterov = false;
  } p;

  static Spec spec() {
    Spec s("sgd", "Stochastic gradient descent: b = momentum b + g, w -= lr b.");
    return add_optimizer_params<Params>(s)
        .param("momentum", &Params::momentum, "Share of the last step's direction.")
        .range(0, 1)
        .param("nesterov", &Params::nesterov, "Steps along g + momentum b.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  void make_moments(Slot& s) const override {
    if (p.momentum != 0) s.first = at::zeros_like(s.weight);
  }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.momentum = p.momentum;
    r.nesterov = p.nesterov;
    return r;
  }
};

const Register<Sgd> registered;

}  // namespace
}  // namespace sluice
