// The Adam family: torch.optim.Adam, AdamW, Adamax, NAdam and RAdam 2.11.
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

using kernels::OptimKind;

template <bool decoupled>
struct Adam final : Optimizer {
  struct Params : MomentParams {
    bool amsgrad = false;
    Params() { weight_decay = decoupled ? 0.01 : 0; }
  } p;

  static Spec spec() {
    Spec s = decoupled
                 ? Spec("adamw",
                        "Adam with decoupled weight decay: w -= lr weight_decay w beside the step.")
                 : Spec("adam", "Adam: steps along the first moment over the root of the second.");
    return add_moment_params<Params>(s).param("amsgrad", &Params::amsgrad,
                                              "Divides by the largest second moment so far.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(OptimKind::adam, p);
    r.decoupled = decoupled;
    r.amsgrad = p.amsgrad;
    return r;
  }
};

struct Adamax final : Optimizer {
  struct Params : MomentParams {
    Params() { lr = 2e-3; }
  } p;

  static Spec spec() {
    Spec s("adamax", "Adam with the largest gradient so far, decayed, for the second moment.");
    return add_moment_params<Params>(s);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override { return moments_rule(OptimKind::adamax, p); }
};

struct Nadam final : Optimizer {
  struct Params : MomentParams {
    double momentum_decay = 0.004;
    bool decoupled_weight_decay = false;
    Params() { lr = 2e-3; }
  } p;

  static Spec spec() {
    Spec s("nadam", "Adam with Nesterov's momentum.");
    return add_moment_params<Params>(s)
        .param("momentum_decay", &Params::momentum_decay, "How the momentum climbs to beta 1.")
        .at_least(0)
        .param("decoupled_weight_decay", &Params::decoupled_weight_decay, "As adamw's.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(OptimKind::nadam, p);
    r.momentum_decay = p.momentum_decay;
    r.decoupled = p.decoupled_weight_decay;
    return r;
  }
};

struct Radam final : Optimizer {
  struct Params : MomentParams {
    bool decoupled_weight_decay = false;
  } p;

  static Spec spec() {
    Spec s("radam", "Adam whose first steps are plain, until the second moment is known well.");
    return add_moment_params<Params>(s).param("decoupled_weight_decay",
                                              &Params::decoupled_weight_decay, "As adamw's.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r = moments_rule(OptimKind::radam, p);
    r.decoupled = p.decoupled_weight_decay;
    return r;
  }
};

const Register<Adam<false>> adam;
const Register<Adam<true>> adamw;
const Register<Adamax> adamax;
const Register<Nadam> nadam;
const Register<Radam> radam;

}  // namespace
}  // namespace sluice
