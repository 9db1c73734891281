// The learning rate's schedule as parameters of an optimizer (kernels/optim/lr_schedule.h).
#pragma once

#include "engine/graph/spec.h"
#include "kernels/optim/lr_schedule.h"

namespace sluice {

struct ScheduleParams {
  std::string lr_schedule = "constant", anneal_strategy = "cos";
  std::string cyclic_mode = "triangular";
  bool epoch_level = true, cycle_momentum = true;
  std::optional<std::int64_t> total_steps;
  std::int64_t warmup_steps = 0, step_size = 1, T_0 = 10, T_mult = 1;
  std::int64_t step_size_up = 2000;
  std::optional<std::int64_t> step_size_down;
  std::vector<std::int64_t> milestones;
  double warmup_multiplier = 0, eta_min = 0, power = 1, cycles = 0.5;
  double start_factor = 1.0 / 3, end_factor = 1, pct_start = 0.3, div_factor = 25;
  double final_div_factor = 1e4;
  std::optional<double> gamma, base_momentum, max_momentum;
};

Spec& add_schedule_params(Spec& s);

// Of a run of so many epochs. Throws where the schedule needs an end that is not said.
kernels::LrSchedule schedule_of(const ScheduleParams& p, std::uint32_t epochs);

}  // namespace sluice
