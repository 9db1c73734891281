// signal_rand_add_sine, signal_rand_add_square_pulse and, for a part of a signal,
// signal_rand_add_sine_partial, signal_rand_add_square_pulse_partial: MONAI's SignalRandAddSine,
// SignalRandAddSquarePulse, SignalRandAddSinePartial, SignalRandAddSquarePulsePartial.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct Wave {
  const char *type, *does;
  at::Tensor (*of)(std::int64_t n, double frequency);
  double low, high;  // amplitudes
  bool in_part;
};

constexpr Wave sine{"signal_rand_add_sine", "Adds a sine.", sine_wave, 0.1, 0.3, false};
constexpr Wave square{
    "signal_rand_add_square_pulse", "Adds a square wave.", square_wave, 0.01, 0.2, false};
constexpr Wave sine_part{"signal_rand_add_sine_partial",
                         "Puts a sine in the place of a part.",
                         sine_wave,
                         0.1,
                         0.3,
                         true};
constexpr Wave square_part{"signal_rand_add_square_pulse_partial",
                           "Puts a square wave in the place of a part.",
                           square_wave,
                           0.01,
                           0.2,
                           true};

template <const Wave& wave>
struct SignalRandAddWave final : SignalNode {
  struct Params : WaveParams {
    Params() { boundaries = {wave.low, wave.high}; }
  } p;

  static Spec spec() {
    Spec s = rand_signal_spec<Params>(wave.type, wave.does, "[low, high] of its amplitude.");
    return wave.in_part ? add_wave_part_params<Params>(s) : add_wave_params<Params>(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double high = between(random, p.boundaries);
    const double share = wave.in_part ? between(random, p.fraction) : 1;
    const double by = between(random, p.frequencies);
    for_each_signal(f, p, [&, random](const at::Tensor& x) mutable {
      const std::int64_t n = x.size(1);
      if (!wave.in_part) return x + high * wave.of(n, by);
      return pasted(x, high * wave.of(steps_of(share, n), by), place_in(random, n));
    });
  }
};

const Register<SignalRandAddWave<sine>> registered_sine;
const Register<SignalRandAddWave<square>> registered_square;
const Register<SignalRandAddWave<sine_part>> registered_sine_part;
const Register<SignalRandAddWave<square_part>> registered_square_part;

}  // namespace
}  // namespace sluice
