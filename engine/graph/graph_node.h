// One node or network outside a graph: its type and parameters from the command line, checked as
// the file's would be and with the same diagnostics, placed at "--param name=value".
#pragma once

#include "engine/graph/graph.h"

namespace sluice {

struct LoneNode {
  const Spec* spec = nullptr;      // null where the type is unknown
  Json params = Json::object();    // every parameter, defaults filled in; checked
  std::vector<std::string> given;  // those that were named
};

// `params`: name and value, the value JSON or text where it is none, as with --set.
LoneNode check_lone_node(const std::string& type, const std::vector<Override>& params,
                         const Catalogue& catalogue, Diagnostics& diagnostics);

}  // namespace sluice
