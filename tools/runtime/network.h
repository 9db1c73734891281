// A network of a graph or a run without its data: what `export` and `dot --net` look at.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "nodes/network/built_network.h"

namespace sluice {

struct GraphNetwork {
  Graph graph;
  const GraphModel* model = nullptr;  // of the graph
  std::shared_ptr<Network> network;   // with the weights that it is drawn with
  BuiltNetwork* built = nullptr;      // the same
  std::vector<std::int64_t> extents;  // of an image that the graph shows it
  // Its parameters and buffers by their names.
  std::map<std::string, at::Tensor> tensors() const;
};

// The graph's network of this name; "": its only one. An Error(usage) lists those there are.
const GraphModel& model_of(const Graph& graph, const std::string& name);

// `run`: a run's folder or a graph. `name`: which network; "": the only one. `size`: extents;
// empty: those of the graph's windows or crops, else 64 along each axis. Computes in float32. An
// Error(usage) says what is missing.
GraphNetwork build_network(const std::string& run, const std::string& name,
                           const std::vector<std::int64_t>& size);

// 150633 as "150,633".
std::string with_commas(std::int64_t n);

}  // namespace sluice
