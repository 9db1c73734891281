// `sluice prune`: a run's network with fewer channels, and the graph that trains it on.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"run", "net", "share": of the channels that stay, "multiple", "out": a folder}: writes
// model.safetensors and graph.json there: the run's graph with fewer channels, these weights and
// two thirds of the epochs.
int prune_command(const Json& request);

}  // namespace sluice
