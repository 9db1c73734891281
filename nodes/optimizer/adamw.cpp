// adamw: PyTorch's torch.optim.AdamW.
#include <ATen/ops/zeros_like.h>

#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct AdamW final : Optimizer {
  struct Params : OptimizerParams {
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-8;
    bool amsgrad = false;
    Params() { weight_decay = 0.01; }
  } p;

  static Spec spec() {
    Spec s("adamw", "Adam with decoupled weight decay: w -= lr weight_decay w beside the step.");
    return add_optimizer_params<Params>(s)
        .param("betas", &Params::betas, "Decay of the first and of the second moment.")
        .range(0, 1)
        .length(2, 2)
        .param("eps", &Params::eps, "Added to the second moment's root.")
        .at_least(0)
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
    s.second = at::zeros_like(s.weight);
    if (p.amsgrad) s.largest = at::zeros_like(s.weight);
  }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(kernels::OptimKind::adam, p);
    r.decoupled = true;
    return r;
  }
};

const Register<AdamW> registered;

}  // namespace
}  // namespace sluice
