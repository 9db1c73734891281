// Which node of a graph trains a network.
#pragma once

#include <algorithm>
#include <string>

#include "engine/graph/graph.h"

namespace sluice {

// The first that updates it; null: it stays as it is.
inline const GraphNode* updater_of(const Graph& graph, const std::string& network) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) {
    return n.spec->access == Access::update && n.params.value(n.spec->network_param, "") == network;
  });
  return found == graph.nodes.end() ? nullptr : &*found;
}

}  // namespace sluice
