// signal_rand_shift: MONAI's SignalRandShift.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandShift final : SignalNode {
  struct Params : SignalParams {
    std::string mode = "wrap";
    double filling = 0;
    Params() { boundaries = {-1, 1}; }
  } p;

  static Spec spec() {
    return rand_signal_spec<Params>("signal_rand_shift", "Shifts a signal in time.",
                                    "[low, high] of the shift as a share of the length; above 0 "
                                    "later.")
        .param("mode", &Params::mode,
               "What comes in at the end: wrap: what goes out at the other; nearest: the last "
               "value; constant: filling.")
        .choices({"wrap", "nearest", "constant"})
        .param("filling", &Params::filling, "The constant.");
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double share = between(random, p.boundaries);
    for_each_signal(f, p,
                    [&](const at::Tensor& x) { return shifted(x, steps_of(share, x.size(1))); });
  }

 private:
  at::Tensor shifted(const at::Tensor& x, std::int64_t by) const {
    if (p.mode == "wrap") return x.roll(by, 1);
    const std::int64_t n = x.size(1);
    const at::Tensor from = at::arange(n) - by;
    const at::Tensor moved = x.index_select(1, from.clamp(0, n - 1));
    if (p.mode == "nearest") return moved;
    return moved.masked_fill(from.lt(0).logical_or(from.ge(n)), p.filling);
  }
};

const Register<SignalRandShift> registered;

}  // namespace
}  // namespace sluice
