// signal_rand_add_square_pulse_partial: MONAI's SignalRandAddSquarePulsePartial.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandAddSquarePulsePartial final : SignalNode {
  struct Params : WaveParams {
    Params() { boundaries = {0.01, 0.2}; }
  } p;

  static Spec spec() {
    Spec s = rand_signal_spec<Params>("signal_rand_add_square_pulse_partial",
                                      "Puts a square wave in the place of a part.",
                                      "[low, high] of its amplitude.");
    return add_wave_part_params<Params>(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double high = between(random, p.boundaries), share = between(random, p.fraction);
    const double by = between(random, p.frequencies);
    for_each_signal(f, p, [&, random](const at::Tensor& x) mutable {
      const at::Tensor wave = high * square_wave(steps_of(share, x.size(1)), by);
      return pasted(x, wave, place_in(random, x.size(1)));
    });
  }
};

const Register<SignalRandAddSquarePulsePartial> registered;

}  // namespace
}  // namespace sluice
