// The picture of a plan as Graphviz text.
//
//   box = node, pointed = source, double = sink, cylinder = network; colour = lane;
//   a part is a titled box, a segment a dotted one with its credits.
//
// Invariant: a pure function of the Plan (and, for the measured picture, of a run's profile.json),
// so pictures can be compared as text.
#pragma once

#include <string>

#include "engine/plan.h"

namespace sluice {

// `profile`: {"nodes": {"pre/load": {"rate": 41.8, "busy": 0.97, ...}}}; nodes are then filled from
// the left by their busy share. Nodes it does not name stay as they are.
std::string to_dot(const Plan& plan, const Json& profile = Json());

}  // namespace sluice
