// What the transforms of signals share: fields [channels, length], one draw for all keys.
#pragma once

#include <ATen/Functions.h>

#include <cmath>

#include "engine/run/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct SignalParams {
  std::vector<std::string> keys{"signal"};
  std::vector<double> boundaries;
  bool allow_missing_keys = false;
};

template <class P>
Spec signal_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      .param("keys", &P::keys, "Signals [channels, length]; they become float32.")
      .param("allow_missing_keys", &P::allow_missing_keys, allow_missing_doc)
      .takes("@keys", Form::any)
      .changes("@keys")
      .dtype("float32");
  return s;
}

template <class P>
Spec rand_signal_spec(std::string name, std::string does, std::string bounds) {
  Spec s = signal_spec<P>(std::move(name), std::move(does));
  // The cast makes the default P's, not the base's.
  s.param("boundaries", static_cast<std::vector<double> P::*>(&P::boundaries), std::move(bounds))
      .length(2, 2)
      .random();
  return s;
}

// A wave that is added along all of a signal or a part of it.
struct WaveParams : SignalParams {
  std::vector<double> frequencies{0.001, 0.02}, fraction{0.01, 0.2};
};
template <class P>
Spec& add_wave_params(Spec& s) {
  return s.param("frequencies", &P::frequencies, "[low, high] of the frequency, radians a step.")
      .length(2, 2);
}
template <class P>
Spec& add_wave_part_params(Spec& s) {
  return add_wave_params<P>(s)
      .param("fraction", &P::fraction,
             "[low, high] of the part's share of the length. The part begins anywhere, is cut at "
             "the end and replaces what was there.")
      .length(2, 2)
      .range(0, 1);
}

inline at::Tensor sine_wave(std::int64_t n, double frequency) {
  return at::sin(at::arange(n, at::kDouble) * frequency).to(at::kFloat);
}
// 1 in the first half of each period, -1 in the second.
inline at::Tensor square_wave(std::int64_t n, double frequency) {
  constexpr double period = 6.283185307179586;
  const at::Tensor phase = at::remainder(at::arange(n, at::kDouble) * frequency, period);
  return at::where(phase < period / 2, 1.0, -1.0).to(at::kFloat);
}

// change(signal, Random&) -> signal; every key gets the same draws.
struct SignalNode : Node {
 protected:
  template <class P, class Change>
  void for_each_signal(Firing& f, const P& p, Change&& change) const {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      if (field.tensor.dim() != 2 || field.tensor.size(1) == 0)
        throw shape_error(p.keys[i], field.tensor, "; a signal is [channels, length]");
      field.tensor = change(field.tensor.to(at::kFloat));
    });
    f.emit(std::move(out));
  }
  static double between(Random& random, const std::vector<double>& range) {
    return random.uniform(range[0], range[1]);
  }
  // A place of the signal, and how many steps a share of it is; halves to even, as Python rounds.
  static std::int64_t place_in(Random& random, std::int64_t length) {
    return static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(length)));
  }
  static std::int64_t steps_of(double share, std::int64_t length) {
    return static_cast<std::int64_t>(std::nearbyint(share * static_cast<double>(length)));
  }
  // `part` in the place of what is there, cut at the end.
  static at::Tensor pasted(const at::Tensor& signal, const at::Tensor& part, std::int64_t at) {
    at::Tensor out = signal.clone();
    const std::int64_t n = std::min(part.size(0), signal.size(1) - at);
    out.narrow(1, at, n).copy_(part.narrow(0, 0, n).expand({signal.size(0), n}));
    return out;
  }
};

}  // namespace sluice
