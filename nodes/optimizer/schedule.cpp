#include "nodes/optimizer/schedule.h"

#include <algorithm>

#include "engine/base/error.h"

namespace sluice {

using kernels::LrSchedule;

namespace {

using Kind = kernels::Schedule;  // a network has a Schedule too

struct NamedSchedule {
  const char* name;
  Kind kind;
  bool ends;  // its shape depends on where it ends
};
constexpr NamedSchedule schedules[] = {
    {"constant", Kind::constant, false},
    {"step", Kind::step, false},
    {"multi_step", Kind::multi_step, false},
    {"exponential", Kind::exponential, false},
    {"linear", Kind::linear, true},
    {"polynomial", Kind::polynomial, true},
    {"cosine", Kind::cosine, true},
    {"cosine_annealing_warm_restarts", Kind::cosine_annealing_warm_restarts, false},
    {"one_cycle", Kind::one_cycle, true},
    {"warmup_cosine", Kind::warmup_cosine, true},
    {"linear_warmup_cosine_annealing", Kind::linear_warmup_cosine_annealing, true},
    {"cyclic", Kind::cyclic, false},
    {"reduce_on_plateau", Kind::constant, false},  // plateau.h
};

}  // namespace

Spec& add_schedule_params(Spec& s) {
  using P = ScheduleParams;
  std::vector<std::string> names, with_an_end;
  for (const NamedSchedule& n : schedules) {
    names.emplace_back(n.name);
    if (n.ends) with_an_end.emplace_back(n.name);
  }
  const std::string by = "lr_schedule";
  return s
      .param("lr_schedule", &P::lr_schedule,
             "With t the time after the warm-up and T what is left of total_steps then, lr times: "
             "step: gamma^floor(t / step_size); multi_step: gamma^(milestones reached); "
             "exponential: gamma^t; linear: from start_factor to end_factor; polynomial: "
             "(1 - t / T)^power. cosine: eta_min + (lr - eta_min)(1 + cos(pi t / T)) / 2; "
             "cosine_annealing_warm_restarts: the same again and again. one_cycle: from "
             "lr / div_factor up to lr and down. warmup_cosine: MONAI's WarmupCosineSchedule. "
             "linear_warmup_cosine_annealing: lightning's, cosine after a climb that ends at "
             "warmup_steps - 1. "
             "cyclic: from eta_min up to lr and down again, time after time. "
             "reduce_on_plateau: times factor where the metric stands still.")
      .choices(std::move(names))
      .param("epoch_level", &P::epoch_level, "Time counts epochs; false: steps taken.")
      .param("total_steps", &P::total_steps,
             "Time at which the schedule ends, its warm-up included; null: run.epochs.")
      .at_least(1)
      .read_when(by, with_an_end)
      .param("warmup_steps", &P::warmup_steps, "Time until lr is reached, in a straight line.")
      .at_least(0)
      .param("warmup_multiplier", &P::warmup_multiplier, "The share of lr that it begins with.")
      .range(0, 1)
      .param("eta_min", &P::eta_min,
             "The cosines' and cyclic's lower end (MONAI's end_lr, torch's base_lr).")
      .at_least(0)
      .read_when(by, {"cosine", "cosine_annealing_warm_restarts", "warmup_cosine",
                      "linear_warmup_cosine_annealing", "cyclic"})
      .param("cycles", &P::cycles, "warmup_cosine: waves of the cosine.")
      .at_least(0)
      .read_when(by, {"warmup_cosine"})
      .param("step_size", &P::step_size, "step: time between two steps.")
      .at_least(1)
      .read_when(by, {"step"})
      .param("milestones", &P::milestones, "multi_step: when, ascending.")
      .length(0, LrSchedule::most_milestones)
      .at_least(0)
      .needed_when(by, {"multi_step"})
      .param("gamma", &P::gamma,
             "step, multi_step, exponential: the factor; cyclic's exp_range: of its waves. null: "
             "0.1; cyclic: 1.")
      .at_least(0)
      .read_when(by, {"step", "multi_step", "exponential", "cyclic"})
      .param("power", &P::power, "polynomial: the exponent.")
      .at_least(0)
      .read_when(by, {"polynomial"})
      .param("start_factor", &P::start_factor, "linear: the first factor.")
      .at_least(0)
      .read_when(by, {"linear"})
      .param("end_factor", &P::end_factor, "linear: the last.")
      .at_least(0)
      .read_when(by, {"linear"})
      .param("T_0", &P::T_0, "Restarts: time until the first.")
      .at_least(1)
      .read_when(by, {"cosine_annealing_warm_restarts"})
      .param("T_mult", &P::T_mult, "Restarts: each takes so many times as long as the one before.")
      .at_least(1)
      .read_when(by, {"cosine_annealing_warm_restarts"})
      .param("pct_start", &P::pct_start, "one_cycle: the share of the climb.")
      .range(0, 1)
      .read_when(by, {"one_cycle"})
      .param("div_factor", &P::div_factor, "one_cycle: it begins at lr / div_factor.")
      .above(0)
      .read_when(by, {"one_cycle"})
      .param("final_div_factor", &P::final_div_factor,
             "one_cycle: it ends at this fraction of its beginning.")
      .above(0)
      .read_when(by, {"one_cycle"})
      .param("anneal_strategy", &P::anneal_strategy, "one_cycle: cosines or straight lines.")
      .choices({"cos", "linear"})
      .read_when(by, {"one_cycle"})
      .param("cycle_momentum", &P::cycle_momentum,
             "one_cycle, cyclic: momentum (or beta 1) falls while the rate climbs, whatever the "
             "optimizer's own is.")
      .read_when(by, {"one_cycle", "cyclic"})
      .param("base_momentum", &P::base_momentum, "... to this; null: 0.85, cyclic: 0.8.")
      .range(0, 1)
      .read_when(by, {"one_cycle", "cyclic"})
      .param("max_momentum", &P::max_momentum, "... from this; null: 0.95, cyclic: 0.9.")
      .range(0, 1)
      .read_when(by, {"one_cycle", "cyclic"})
      .param("step_size_up", &P::step_size_up, "cyclic: time of a climb.")
      .at_least(1)
      .read_when(by, {"cyclic"})
      .param("step_size_down", &P::step_size_down, "cyclic: time of a fall; null: the same.")
      .at_least(1)
      .read_when(by, {"cyclic"})
      .param("cyclic_mode", &P::cyclic_mode,
             "cyclic: triangular; triangular2: each wave half as high as the one before; "
             "exp_range: gamma^t times as high.")
      .choices({"triangular", "triangular2", "exp_range"})
      .read_when(by, {"cyclic"});
}

LrSchedule schedule_of(const ScheduleParams& p, std::uint32_t epochs) {
  const auto named = std::find_if(std::begin(schedules), std::end(schedules),
                                  [&](const auto& n) { return n.name == p.lr_schedule; });
  if (named->ends && !p.epoch_level && !p.total_steps)
    throw Error(Exit::usage, "lr_schedule " + p.lr_schedule +
                                 " by steps (epoch_level is false) needs total_steps");
  if (!std::is_sorted(p.milestones.begin(), p.milestones.end()))
    throw Error(Exit::usage, "milestones must ascend");
  LrSchedule s;
  s.kind = named->kind;
  s.by_step = !p.epoch_level;
  s.total = static_cast<double>(p.total_steps.value_or(epochs));
  if (p.warmup_steps > 0 && static_cast<double>(p.warmup_steps) >= s.total && named->ends)
    throw Error(Exit::usage, "warmup_steps (" + std::to_string(p.warmup_steps) +
                                 ") leaves nothing of total_steps (" +
                                 std::to_string(p.total_steps.value_or(epochs)) + ")");
  s.linear_anneal = p.anneal_strategy == "linear";
  s.cycle_momentum = p.cycle_momentum;
  s.cyclic_mode = p.cyclic_mode == "triangular"    ? kernels::Cyclic::triangular
                  : p.cyclic_mode == "triangular2" ? kernels::Cyclic::triangular2
                                                   : kernels::Cyclic::exp_range;
  s.step_size_up = static_cast<double>(p.step_size_up);
  s.step_size_down = static_cast<double>(p.step_size_down.value_or(p.step_size_up));
  s.warmup = static_cast<double>(p.warmup_steps);
  s.warmup_multiplier = p.warmup_multiplier;
  s.step_size = static_cast<double>(p.step_size);
  const bool cyclic = s.kind == Kind::cyclic;  // torch's CyclicLR has other defaults
  s.gamma = p.gamma.value_or(cyclic ? 1 : 0.1);
  s.power = p.power;
  s.cycles = p.cycles;
  s.eta_min = p.eta_min;
  s.start_factor = p.start_factor;
  s.end_factor = p.end_factor;
  s.period = static_cast<double>(p.T_0);
  s.period_factor = static_cast<double>(p.T_mult);
  s.pct_start = p.pct_start;
  s.div_factor = p.div_factor;
  s.final_div_factor = p.final_div_factor;
  s.base_momentum = p.base_momentum.value_or(cyclic ? 0.8 : 0.85);
  s.max_momentum = p.max_momentum.value_or(cyclic ? 0.9 : 0.95);
  s.milestone_count = static_cast<int>(p.milestones.size());
  std::copy(p.milestones.begin(), p.milestones.end(), s.milestones);
  return s;
}

}  // namespace sluice
