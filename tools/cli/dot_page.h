// The picture as one page for a browser: pan, zoom, and a click on a node shows its parameters,
// what its type's documentation says and its lines in the graph file.
//
// Invariant: one file that asks the network for nothing; what comes from a graph file is text in
// it, never markup or script.
#pragma once

#include <string>

#include "engine/judge/figures.h"

namespace sluice::cli {

// `svg`: Graphviz's drawing of to_dot's text for the same plan.
std::string dot_page(const Plan& plan, const Figures& figures, const std::string& svg);

}  // namespace sluice::cli
