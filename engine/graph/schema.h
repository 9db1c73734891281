// The JSON Schema of graph files, for editors: completion and hover texts from the same Specs that
// the checks use.
//
// Invariant: a file that the schema refuses has a diagnostic whose code says `by_schema`
// (codes.cpp), and a file with such a diagnostic is refused by the schema, except where a variable
// hides the value. The other codes are about what a schema cannot know: names across the file
// (inputs, variables, networks, the parameters of a part), lengths that depend on each other,
// cycles, and what it means to run the graph.
#pragma once

#include "engine/graph/catalogue.h"

namespace sluice {

// JSON Schema draft 7 of a whole file.
Json graph_schema(const Catalogue& catalogue);

}  // namespace sluice
