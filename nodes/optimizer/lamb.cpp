// lamb: You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2, with the
// identity for phi.
#include "nodes/optimizer/optimizer.h"

namespace sluice {
namespace {

struct Lamb final : Optimizer {
  struct Params : MomentParams {
    Params() {
      eps = 1e-6;
      weight_decay = 0.01;
    }
  } p;

  static Spec spec() {
    Spec s("lamb",
           "Adam's direction, by tensor as long as the tensor's weights: for large batches.");
    return add_moment_params<Params>(s);
  }

 private:
  const OptimizerParams& common() const override { return p; }
  kernels::OptimRule rule() const override { return moments_rule(kernels::OptimKind::lamb, p); }
};

const Register<Lamb> registered;

}  // namespace
}  // namespace sluice
