// signal_rand_scale: MONAI's SignalRandScale.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandScale final : SignalNode {
  struct Params : SignalParams {
    Params() { boundaries = {-1, 1}; }
  } p;

  static Spec spec() {
    return rand_signal_spec<Params>("signal_rand_scale", "x times a drawn factor.",
                                    "[low, high] of the factor.");
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double by = between(random, p.boundaries);
    for_each_signal(f, p, [&](const at::Tensor& x) { return x * by; });
  }
};

const Register<SignalRandScale> registered;

}  // namespace
}  // namespace sluice
