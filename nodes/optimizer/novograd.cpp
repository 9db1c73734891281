// novograd: MONAI's Novograd (monai.optimizers.Novograd 1.6.1).
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Novograd final : Optimizer {
  struct Params : OptimizerParams {
    std::vector<double> betas{0.9, 0.98};
    double eps = 1e-8;
    bool grad_averaging = false, amsgrad = false;
  } p;

  static Spec spec() {
    Spec s("novograd", "Adam-like steps with one second moment a tensor, the gradient's norm.");
    return add_optimizer_params<Params>(s)
        .param("betas", &Params::betas, "Decay of the first and of the second moment.")
        .range(0, 1)
        .length(2, 2)
        .param("eps", &Params::eps, "Added to the second moment's root.")
        .at_least(0)
        .param("grad_averaging", &Params::grad_averaging, "Scales the gradient by 1 - beta 1.")
        .param("amsgrad", &Params::amsgrad, "Divides by the largest second moment so far.");
  }

  void open(const OpenContext& context) override {
    if (p.betas.size() != 2) throw Error(Exit::usage, "betas needs two values");
    Optimizer::open(context);
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
