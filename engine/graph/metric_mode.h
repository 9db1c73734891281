// Whether a metric of a graph is better where there is more of it, or less: one rule for what keeps
// the best epoch, ends a run or lowers a learning rate.
#pragma once

#include "engine/graph/graph.h"

namespace sluice {

// "min" or "max". `metric`: "node.metric". What `run` says of it, else by its name or its node's
// type (lower_is_better.h).
std::string mode_of(const Graph& graph, const std::string& metric);

// What a node is made with: its parameters. A "mode" that is null beside a metric that it watches
// is that metric's.
Json made_with(const Graph& graph, const GraphNode& node);

}  // namespace sluice
