// signal_rand_add_square_pulse: MONAI's SignalRandAddSquarePulse.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandAddSquarePulse final : SignalNode {
  struct Params : WaveParams {
    Params() { boundaries = {0.01, 0.2}; }
  } p;

  static Spec spec() {
    Spec s = rand_signal_spec<Params>("signal_rand_add_square_pulse", "Adds a square wave.",
                                      "[low, high] of its amplitude.");
    return add_wave_params<Params>(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double high = between(random, p.boundaries), by = between(random, p.frequencies);
    for_each_signal(f, p,
                    [&](const at::Tensor& x) { return x + high * square_wave(x.size(1), by); });
  }
};

const Register<SignalRandAddSquarePulse> registered;

}  // namespace
}  // namespace sluice
