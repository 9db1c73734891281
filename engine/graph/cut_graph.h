// A part of a graph as a graph of its own: one node, all that stands upstream of it, and a sink
// that reads it. Names, parameters and so random draws stay as they are.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace sluice {

// `from`: "batch", "pre/norm" or "split.label". `sink` gets one input, its first port. A
// validation's source waits for nobody any more. Throws Error(usage) where no such node is there,
// it sends nothing, or a network is trained upstream of it.
Graph cut_graph(Graph graph, const std::string& from, GraphNode sink);

}  // namespace sluice
