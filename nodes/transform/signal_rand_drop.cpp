// signal_rand_drop: MONAI's SignalRandDrop.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandDrop final : SignalNode {
  struct Params : SignalParams {
    Params() { boundaries = {0, 1}; }
  } p;

  static Spec spec() {
    Spec s = rand_signal_spec<Params>("signal_rand_drop", "Sets a part of a signal to 0.",
                                      "[low, high] of the part's share of the length.");
    return s;
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double share = between(random, p.boundaries);
    for_each_signal(f, p, [&, random](const at::Tensor& x) mutable {
      const std::int64_t n = steps_of(std::max(share, 0.0), x.size(1));
      return pasted(x, at::zeros({n}), place_in(random, x.size(1)));
    });
  }
};

const Register<SignalRandDrop> registered;

}  // namespace
}  // namespace sluice
