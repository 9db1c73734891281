// Learning rates over time, for host and device: a pure function of the time, so a resumed run and
// a recorded step go on with the same rate.
//
// Sources: torch.optim.lr_scheduler 2.11 (closed forms), monai.optimizers.WarmupCosineSchedule
// 1.6.1; cosine restarts: Loshchilov, Hutter 2017; cyclic: Smith 2017; one cycle: Smith, Topin
// 2019.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/base/intensity_math.h"

namespace sluice::kernels {

enum class Schedule : std::uint8_t {
  constant,
  step,
  multi_step,
  exponential,
  linear,
  polynomial,
  cosine,
  cosine_annealing_warm_restarts,
  one_cycle,
  warmup_cosine,
  linear_warmup_cosine_annealing,
  cyclic,
};
enum class Cyclic : std::uint8_t { triangular, triangular2, exp_range };

struct LrSchedule {
  static constexpr int most_milestones = 32;
  Schedule kind = Schedule::constant;
  bool by_step = false;         // time is in steps taken; else in epochs
  bool linear_anneal = false;   // one_cycle: straight lines, not cosines
  bool cycle_momentum = false;  // one_cycle, cyclic: momentum falls while the rate climbs
  Cyclic cyclic_mode = Cyclic::triangular;
  double step_size_up = 2000, step_size_down = 2000;  // cyclic: time of a climb, of a fall
  double warmup = 0, warmup_multiplier = 0;  // the climb before it, and the share it begins with
  double total = 1;                          // where it ends, the climb included
  double step_size = 1, gamma = 0.1, power = 1, cycles = 0.5, eta_min = 0;
  double start_factor = 1, end_factor = 1;                          // linear
  double period = 1, period_factor = 1;                             // restarts: T_0, T_mult
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;  // one_cycle
  double base_momentum = 0.85, max_momentum = 0.95;
  double milestones[most_milestones] = {};
  int milestone_count = 0;

  // What is left of the time when the warm-up is over.
  SLUICE_HD double rest() const { return total > warmup ? total - warmup : 1; }
  SLUICE_HD bool moves_momentum() const {
    return cycle_momentum && (kind == Schedule::one_cycle || kind == Schedule::cyclic);
  }
};

// Between `from` and `to`, at the share `at` of the way.
SLUICE_HD inline double annealed(const LrSchedule& s, double from, double to, double at) {
  if (s.linear_anneal) return from + (to - from) * at;
  return to + (from - to) / 2 * (1 + cos(3.14159265358979323846 * at));
}

// One cycle: what a quantity that begins with `first` is at time t after the warm-up, if it is
// `top` where the climb ends and `last` at the end.
SLUICE_HD inline double cycled(const LrSchedule& s, double first, double top, double last,
                               double t) {
  const double climb = s.pct_start * s.rest() - 1, end = s.rest() - 1;
  if (t <= climb) return annealed(s, first, top, climb > 1e-9 ? t / climb : 1.0);
  return annealed(s, top, last, t < end ? (t - climb) / (end - climb) : 1.0);
}

// Cyclic: 0 at the bottom of a wave, 1 at the top of the first.
SLUICE_HD inline double wave(const LrSchedule& s, double t) {
  const double whole = s.step_size_up + s.step_size_down, climb = s.step_size_up / whole;
  const double cycle = floor(t / whole), x = t / whole - cycle;
  const double height = x <= climb ? x / climb : (x - 1) / (climb - 1);
  if (s.cyclic_mode == Cyclic::triangular2) return height * pow(0.5, cycle);
  return s.cyclic_mode == Cyclic::exp_range ? height * pow(s.gamma, t) : height;
}

SLUICE_HD inline double learning_rate(const LrSchedule& s, double lr, double t) {
  constexpr double pi = 3.14159265358979323846;
  // lightning's climb ends a unit of time before its warm-up does.
  const bool ends_before = s.kind == Schedule::linear_warmup_cosine_annealing;
  const double climb = fmax(1.0, double(s.warmup) - ends_before);
  if (t < s.warmup) return lr * (s.warmup_multiplier + (1 - s.warmup_multiplier) * t / climb);
  t -= s.warmup;
  const double total = s.rest();
  switch (s.kind) {
    case Schedule::constant:
      return lr;
    case Schedule::step:
      return lr * pow(s.gamma, floor(t / s.step_size));
    case Schedule::multi_step: {
      int passed = 0;
      while (passed < s.milestone_count && s.milestones[passed] <= t) ++passed;
      return lr * pow(s.gamma, passed);
    }
    case Schedule::exponential:
      return lr * pow(s.gamma, t);
    case Schedule::linear:
      return lr * (s.start_factor + (s.end_factor - s.start_factor) * fmin(t, total) / total);
    case Schedule::polynomial:
      return lr * pow(1 - fmin(t, total) / total, s.power);
    case Schedule::cosine:
    case Schedule::linear_warmup_cosine_annealing:
      return s.eta_min + (lr - s.eta_min) * (1 + cos(pi * t / total)) / 2;
    case Schedule::cosine_annealing_warm_restarts: {
      double length = s.period;
      if (s.period_factor == 1) {
        t = fmod(t, length);
      } else {
        while (t >= length) t -= length, length *= s.period_factor;
      }
      return s.eta_min + (lr - s.eta_min) * (1 + cos(pi * t / length)) / 2;
    }
    case Schedule::one_cycle:
      return cycled(s, lr / s.div_factor, lr, lr / s.div_factor / s.final_div_factor, t);
    case Schedule::cyclic:
      return s.eta_min + (lr - s.eta_min) * wave(s, t);
    case Schedule::warmup_cosine:
      return fmax(s.eta_min, lr * fmax(0.0, 0.5 * (1 + cos(pi * s.cycles * 2 * t / total))));
  }
  return lr;
}

// The first moment's decay (SGD: the momentum), which one_cycle and cyclic move against the rate.
SLUICE_HD inline double momentum_at(const LrSchedule& s, double momentum, double t) {
  if (!s.moves_momentum()) return momentum;
  t = fmax(0.0, t - s.warmup);
  if (s.kind == Schedule::cyclic)
    return s.max_momentum - (s.max_momentum - s.base_momentum) * wave(s, t);
  return cycled(s, s.max_momentum, s.base_momentum, s.max_momentum, t);
}

}  // namespace sluice::kernels
