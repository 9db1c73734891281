#include "engine/session/stop_rule.h"

#include <cmath>

namespace sluice {

bool improves(const std::string& mode, double value, const std::optional<double>& best,
              double least) {
  if (std::isnan(value)) return false;
  if (!best || std::isnan(*best)) return true;
  return (mode == "max" ? value - *best : *best - value) > least;
}

bool Stopping::met(const StopRule& rule, double value, std::uint32_t epoch) {
  if (seen_ != epoch) {  // validation may be rarer than training
    seen_ = epoch;
    const std::string mode = rule.mode.value_or("max");
    const bool better = improves(mode, value, best_, rule.min_delta);
    if (better || (improves(mode, value, best_) && !rule.cumulative_delta)) best_ = value;
    no_better_ = better ? 0 : no_better_ + 1;
  }
  return (rule.at_least && value >= *rule.at_least) || (rule.at_most && value <= *rule.at_most) ||
         (rule.patience && no_better_ >= *rule.patience);
}

Json Stopping::save() const {
  return {{"best", best_ ? Json(*best_) : Json()},
          {"seen", seen_ ? Json(*seen_) : Json()},
          {"no_better", no_better_}};
}

void Stopping::load(const Json& state) {
  if (!state.at("best").is_null()) best_ = state["best"].get<double>();
  if (!state.at("seen").is_null()) seen_ = state["seen"].get<std::uint32_t>();
  no_better_ = state.at("no_better");
}

}  // namespace sluice
