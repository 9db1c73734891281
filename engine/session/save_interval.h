// How often a run writes checkpoints/last anew while it trains.
#pragma once

#include <limits>

#include "engine/graph/graph.h"

namespace sluice {

// Seconds: what the graph says, else ten minutes, so that no failure costs hours; infinite where it
// says 0.
inline double save_interval_s(const RunSettings& run) {
  const double s = run.checkpoint_every_s.value_or(600);
  return s > 0 ? s : std::numeric_limits<double>::infinity();
}

}  // namespace sluice
