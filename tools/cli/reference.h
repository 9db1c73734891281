// The node reference, nodes/README.md: every type of the catalogue in Markdown.
#pragma once

#include <string>

#include "engine/graph/catalogue.h"

namespace sluice::cli {

std::string node_reference(const Catalogue& catalogue);

}  // namespace sluice::cli
