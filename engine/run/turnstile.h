// Whose turn it is to hold a group of updated networks: training epoch 0, its validations,
// training epoch 1, ... The order is fixed by the plan, so it does not depend on timing.
//
// Invariant: a turn ends when every node that ends it (the updaters with their training region, or
// the sinks after the validation readers) has closed that epoch, so all has been told that the
// region measured; between two turns nobody holds the networks, and there the hook runs: stop rule,
// schedule, checkpoint. A turn that was cut never ends, and none begins once the hook has said stop
// (one that holds no samples would otherwise end unnoticed).
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/plan/plan.h"

namespace sluice {

class Turnstile {
 public:
  // `between(ended)` is called once for each turn that ends, on the thread that ended it; true
  // stops here.
  Turnstile(const Plan& plan, std::size_t first, std::function<bool(const Turn& ended)> between);

  bool open(int stream, std::uint32_t epoch) const;
  // A node that ends turns has closed an epoch. True where the turn changed: gates may go on.
  bool closed(int node, std::uint32_t epoch, bool cut);

  std::size_t position() const;  // how many turns have ended
  const TurnOrder& sequence() const { return sequence_; }
  bool ends(int node) const;

 private:
  bool complete(const Turn& turn) const;

  const Plan& plan_;
  const PlanTurns& turns_;
  const TurnOrder sequence_;
  const std::vector<int> trainers_;  // which end a turn of training: updaters and their region
  std::function<bool(const Turn&)> between_;
  mutable std::mutex mutex_;
  std::size_t position_;
  bool advancing_ = false, stopped_ = false;
  std::vector<std::int64_t> closed_;  // by plan node: epochs closed and not cut
};

}  // namespace sluice
