// A run's part in its group: who it is, the wire, and the wish to end.
//
// Invariant: a run whose steps are sharded ends behind a whole step, the same on every rank: the
// wish rides in the next step's header, and the updater cuts when all have seen it.
#pragma once

#include <atomic>
#include <functional>

#include "engine/group/wire.h"
#include "engine/group/world.h"

namespace sluice {

struct Ranks {
  World world;
  Wire* wire = nullptr;           // null: the process is alone
  std::atomic<bool> wish{false};  // this rank's
  std::function<void()> cut;      // ends the run behind this step; set once it runs

  bool alone() const { return !wire; }
};

}  // namespace sluice
