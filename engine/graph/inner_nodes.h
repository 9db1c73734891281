// Nodes inside of a node (of one_of, some_of, interact, several_steps): which parameters hold them,
// {"type": ..., parameters} or lists of these, and which types may stand there.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "engine/graph/catalogue.h"
#include "engine/graph/spec.h"

namespace sluice {

// "step": the nodes of one step of a network, from its pass to its updater.
inline bool holds_a_step(const ParamSpec& p) { return p.type == "json" && p.name == "step"; }

inline bool holds_nodes(const ParamSpec& p) {
  return p.type == "json" && (p.name == "transforms" || p.name == "body" || holds_a_step(p));
}

// Those that make at most one sample of one, and keep nothing between two.
inline bool may_stand_inside(const Spec& s) {
  return !s.is_network && s.arity == Arity::one_to_one && s.ins.size() == 1 && s.outs.size() == 1 &&
         !s.is_ordered && !s.is_gate && s.access == Access::none;
}

// In a step also what reads a network, or updates it; not steps in steps.
inline bool may_stand_in_step(const Spec& s) {
  return !s.is_network && s.arity == Arity::one_to_one && s.ins.size() == 1 && s.outs.size() == 1 &&
         !s.is_gate && s.follows_param.empty() && (!s.is_ordered || s.access == Access::update) &&
         std::none_of(s.params.begin(), s.params.end(), holds_a_step);
}

struct StepFault {
  std::string text;
  std::optional<std::size_t> node;  // of the list; nullopt: the list itself is wrong
};

// What is wrong with the nodes of a step of the network `net`. What is no node, or of a type that
// nobody knows, is left to whoever reads the nodes.
std::optional<StepFault> wrong_step(const Json& step, const std::string& net,
                                    const Catalogue& catalogue);

}  // namespace sluice
