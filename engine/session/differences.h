// What one graph says otherwise than another.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice {

struct Difference {
  std::string path, before, after;  // "nodes.step.lr", "0.001", "0.0005"
  bool reorders = false;            // training's batches are others, or in another order
};

// What samples are made of, by path, without what makes no difference to them: names and values of
// nodes and networks, the seed, and how transforms are done together.
Json data_settings(const Graph& graph);

// Of settings that a result may depend on, defaults filled in; by path.
std::vector<Difference> differences(const Graph& before, const Graph& after);

}  // namespace sluice
