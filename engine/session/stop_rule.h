// When a run ends by its metric: high or low enough, or no better for a while (ignite's
// EarlyStopping).
#pragma once

#include <optional>
#include <string>

#include "engine/base/json.h"
#include "engine/graph/graph.h"

namespace sluice {

// Whether a metric's value is better than the best one before it, by more than `least`. What was
// measured of nothing is NaN, and no better than any; any number is better than that.
bool improves(const std::string& mode, double value, const std::optional<double>& best,
              double least = 0);

class Stopping {
 public:
  // Told once an epoch, with the metric's last value and the epoch that it is of.
  bool met(const StopRule& rule, double value, std::uint32_t epoch);

  Json save() const;
  void load(const Json& state);

 private:
  std::optional<double> best_;
  std::optional<std::uint32_t> seen_;
  std::int64_t no_better_ = 0;
};

}  // namespace sluice
