#include "nodes/optimizer/plateau.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/lower_is_better.h"

namespace sluice {

Spec& add_plateau_params(Spec& s) {
  using P = PlateauParams;
  const std::string by = "lr_schedule";
  const std::vector<std::string> here{"reduce_on_plateau"};
  return s
      .param("metric", &P::metric,
             "reduce_on_plateau: \"node.metric\" of a validation sink or an optimizer.")
      .read_when(by, here)
      .param(
          "mode", &P::mode,
          "reduce_on_plateau: whether less of it is better, or more. null: as of run.stop, less of "
          "losses, errors and distances, else more.")
      .choices({"min", "max"})
      .read_when(by, here)
      .param("factor", &P::factor, "reduce_on_plateau: what the rate is multiplied by.")
      .above(0)
      .below(1)
      .read_when(by, here)
      .param("patience", &P::patience, "reduce_on_plateau: so many values may be no better.")
      .at_least(0)
      .read_when(by, here)
      .param("threshold", &P::threshold, "reduce_on_plateau: better by less does not count.")
      .at_least(0)
      .read_when(by, here)
      .param("threshold_mode", &P::threshold_mode, "Of the best value, or in the metric's unit.")
      .choices({"rel", "abs"})
      .read_when(by, here)
      .param("cooldown", &P::cooldown, "reduce_on_plateau: so many values after it do not count.")
      .at_least(0)
      .read_when(by, here)
      .param("min_lr", &P::min_lr,
             "reduce_on_plateau: the rate falls no lower, nor does that of one of groups.")
      .at_least(0)
      .read_when(by, here);
}

void Plateau::open(const PlateauParams& p, bool is_used, double lr,
                   const std::vector<double>& others) {
  if (is_used && p.metric.empty())
    throw Error(Exit::usage, "lr_schedule reduce_on_plateau needs \"metric\": \"node.metric\"");
  p_ = p;
  is_used_ = is_used;
  lr_ = lr;
  rates_[lr] = lr;
  for (const double other : others) rates_[other] = other;
  less_ = p.mode ? *p.mode == "min" : lower_is_better(p.metric);
}

void Plateau::observe(const Observation& o) {
  if (!is_used_ || !o.of_epoch || o.name != p_.metric) return;
  const std::lock_guard lock(mutex_);
  const auto better = [&](double best) {
    const double sign = less_ ? -1 : 1;
    const double bound =
        p_.threshold_mode == "rel" ? best * (1 + sign * p_.threshold) : best + sign * p_.threshold;
    return less_ ? o.value < bound : o.value > bound;
  };
  const bool none = !best_ || std::isnan(*best_);  // torch begins with infinity
  if (!std::isnan(o.value) && (none || better(*best_))) {
    best_ = o.value;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= p_.patience) return;
  cooling_ = p_.cooldown;
  bad_ = 0;
  for (auto& [lr, rate] : rates_) {
    const double lower = std::max(rate * p_.factor, p_.min_lr);
    if (rate - lower > 1e-8) rate = lower;  // torch's eps
  }
}

std::map<double, double> Plateau::rates() const {
  const std::lock_guard lock(mutex_);
  return rates_;
}

Json Plateau::save() const {
  const std::lock_guard lock(mutex_);
  const double factor = lr_ > 0 ? rates_.at(lr_) / lr_ : 1;
  return {{"metric", p_.metric},
          {"less_is_better", less_},
          {"rates", rates_},
          {"factor", factor},
          {"best", best_ ? Json(*best_) : Json()},
          {"num_bad_epochs", bad_},
          {"cooldown_counter", cooling_}};
}

void Plateau::load(const Json& state) {
  const std::lock_guard lock(mutex_);
  const double factor = state.at("factor");
  const auto saved = state.value("rates", std::map<double, double>());
  for (auto& [lr, rate] : rates_) {  // one that it does not have has fallen as the optimizer's own
    const auto same = saved.find(lr);
    rate = same != saved.end() ? same->second : std::max(lr * factor, std::min(lr, p_.min_lr));
  }
  if (state.value("metric", p_.metric) != p_.metric ||
      state.value("less_is_better", less_) != less_)
    return;  // no value of another metric is one to compare with
  best_ = state.at("best").is_null() ? std::nullopt : std::optional<double>(state["best"]);
  bad_ = state.at("num_bad_epochs");
  cooling_ = state.at("cooldown_counter");
}

}  // namespace sluice
