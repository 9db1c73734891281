// Optimizers that scale each weight's step by its own past gradients: torch.optim.RMSprop, Adagrad
// and Adadelta 2.11.
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

using kernels::OptimKind;

struct Rmsprop final : Optimizer {
  struct Params : OptimizerParams {
    double alpha = 0.99, eps = 1e-8, momentum = 0;
    bool centered = false;
    Params() { lr = 1e-2; }
  } p;

  static Spec spec() {
    Spec s("rmsprop", "Divides the gradient by the root of its running mean square.");
    return add_optimizer_params<Params>(s)
        .param("alpha", &Params::alpha, "Decay of the mean square.")
        .range(0, 1)
        .param("eps", &Params::eps, "Added to the root.")
        .at_least(0)
        .param("momentum", &Params::momentum, "Share of the last step's direction.")
        .range(0, 1)
        .param("centered", &Params::centered, "Takes the variance for the mean square.");
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.kind = OptimKind::rmsprop;
    r.beta2 = p.alpha;
    r.eps = p.eps;
    r.momentum = p.momentum;
    r.centered = p.centered;
    return r;
  }
};

struct Adagrad final : Optimizer {
  struct Params : OptimizerParams {
    double lr_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
    Params() { lr = 1e-2; }
  } p;

  static Spec spec() {
    Spec s("adagrad", "Divides the gradient by the root of the sum of its squares so far.");
    return add_optimizer_params<Params>(s)
        .param("lr_decay", &Params::lr_decay, "lr / (1 + steps lr_decay).")
        .at_least(0)
        .param("initial_accumulator_value", &Params::initial_accumulator_value,
               "What the sum begins with.")
        .at_least(0)
        .param("eps", &Params::eps, "Added to the root.")
        .at_least(0);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  double first_second() const override { return p.initial_accumulator_value; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.kind = OptimKind::adagrad;
    r.eps = p.eps;
    r.lr_decay = p.lr_decay;
    return r;
  }
};

struct Adadelta final : Optimizer {
  struct Params : OptimizerParams {
    double rho = 0.9, eps = 1e-6;
    Params() { lr = 1; }
  } p;

  static Spec spec() {
    Spec s("adadelta", "Steps in the unit of the weights: the past steps over the past gradients.");
    return add_optimizer_params<Params>(s)
        .param("rho", &Params::rho, "Decay of both mean squares.")
        .range(0, 1)
        .param("eps", &Params::eps, "Added to both under the root.")
        .at_least(0);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override {
    kernels::OptimRule r;
    r.kind = OptimKind::adadelta;
    r.beta2 = p.rho;
    r.eps = p.eps;
    return r;
  }
};

const Register<Rmsprop> rmsprop;
const Register<Adagrad> adagrad;
const Register<Adadelta> adadelta;

}  // namespace
}  // namespace sluice
