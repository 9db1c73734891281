// signal_rand_add_sine_partial: MONAI's SignalRandAddSinePartial.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandAddSinePartial final : SignalNode {
  struct Params : WaveParams {
    Params() { boundaries = {0.1, 0.3}; }
  } p;

  static Spec spec() {
    Spec s = rand_signal_spec<Params>("signal_rand_add_sine_partial",
                                      "Puts a sine in the place of a part.",
                                      "[low, high] of its amplitude.");
    return add_wave_part_params<Params>(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double high = between(random, p.boundaries), share = between(random, p.fraction);
    const double by = between(random, p.frequencies);
    for_each_signal(f, p, [&, random](const at::Tensor& x) mutable {
      const at::Tensor wave = high * sine_wave(steps_of(share, x.size(1)), by);
      return pasted(x, wave, place_in(random, x.size(1)));
    });
  }
};

const Register<SignalRandAddSinePartial> registered;

}  // namespace
}  // namespace sluice
