// Nodes inside of a node (of one_of, some_of, interact): which parameters hold them, {"type": ...,
// parameters} or lists of these, and which types may stand there.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

inline bool holds_nodes(const ParamSpec& p) {
  return p.type == "json" && (p.name == "transforms" || p.name == "body");
}

// Those that make at most one sample of one, and keep nothing between two.
inline bool may_stand_inside(const Spec& s) {
  return !s.is_network && s.arity == Arity::one_to_one && s.ins.size() == 1 && s.outs.size() == 1 &&
         !s.is_ordered && !s.is_gate && s.access == Access::none;
}

}  // namespace sluice
