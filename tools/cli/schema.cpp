// `sluice schema`: the JSON Schema of graph files.
#include "engine/graph/schema.h"

#include <iostream>

#include "tools/cli/cli.h"

namespace sluice::cli {

int schema() {
  std::cout << dump(graph_schema(catalogue()));
  return code(Exit::done);
}

}  // namespace sluice::cli
