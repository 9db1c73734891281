// The JSON Schema of graph files, for editors: completion and hover texts from the same Specs that
// the checks use.
//
// Invariant: what the checks accept, the schema accepts. The reverse does not hold: names across
// the file (inputs, variables, networks), counts and cycles are beyond a schema.
#pragma once

#include "engine/registry.h"

namespace sluice {

// JSON Schema draft 7 of a whole file.
Json graph_schema(const Catalogue& catalogue);

}  // namespace sluice
