// A run's wire on LibTorch's c10d: Gloo between processes, a TCPStore for messages.
#pragma once

#include <functional>
#include <string>

#include "engine/group/wire.h"
#include "engine/group/world.h"

namespace sluice {

struct GlooOptions {
  double join_timeout_s = 300;  // until all ranks are there
  double peer_timeout_s = 30;   // silence after which a rank counts as hung
  std::function<int()> signal;  // that asks for the end: joining ends with 128 + it; or 0
  // Another rank is gone or hung: told once, from a thread of the wire's own.
  std::function<void(const std::string& who)> lost;
};

// Joins the group, for as long as the process lives; throws Error(peer) where the others do not
// come.
Wire* join_gloo(const World& world, const GlooOptions& options);

}  // namespace sluice
