// Which networks a node names, and which node of a graph trains one.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice {

// Those that it reads or updates, in the order of its Spec. One that is not named (null or "", or
// wrongly) is left out.
inline std::vector<std::string> networks_of(const GraphNode& n) {
  std::vector<std::string> names;
  for (const std::string& key : n.spec->network_params)
    if (const auto named = n.params.find(key); named != n.params.end() && named->is_string())
      if (std::string name = *named; !name.empty()) names.push_back(std::move(name));
  return names;
}

// What an updater updates; "" of other nodes.
inline std::string network_updated_by(const GraphNode& n) {
  const auto names = n.spec->access == Access::update ? networks_of(n) : std::vector<std::string>();
  return names.empty() ? "" : names.front();
}

// The first that updates it; null: it stays as it is.
inline const GraphNode* updater_of(const Graph& graph, const std::string& network) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) {
    return network_updated_by(n) == network;
  });
  return found == graph.nodes.end() ? nullptr : &*found;
}

// Whether the graph trains a network that the node reads or updates.
inline bool uses_a_learner(const Graph& graph, const GraphNode& n) {
  const std::vector<std::string> names = networks_of(n);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return updater_of(graph, name) != nullptr; });
}

}  // namespace sluice
