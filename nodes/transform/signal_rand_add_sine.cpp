// signal_rand_add_sine: MONAI's SignalRandAddSine.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandAddSine final : SignalNode {
  struct Params : WaveParams {
    Params() { boundaries = {0.1, 0.3}; }
  } p;

  static Spec spec() {
    Spec s = rand_signal_spec<Params>("signal_rand_add_sine", "Adds a sine.",
                                      "[low, high] of its amplitude.");
    return add_wave_params<Params>(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double high = between(random, p.boundaries), by = between(random, p.frequencies);
    for_each_signal(f, p, [&](const at::Tensor& x) { return x + high * sine_wave(x.size(1), by); });
  }
};

const Register<SignalRandAddSine> registered;

}  // namespace
}  // namespace sluice
