// `sluice export`: the runtime writes the file.
#include <algorithm>

#include "tools/cli/cli.h"

namespace sluice::cli {

int export_network(const Options& o) {
  if (!o.out.ends_with(".onnx")) {
    print_error(o.out + ": networks are exported as .onnx");
    return code(Exit::usage);
  }
  return run_in_runtime({{"command", "export"},
                         {"run", o.run},
                         {"net", o.key},
                         {"weights", o.weights},
                         {"out", o.out},
                         {"precision", o.precision_name},
                         {"head", o.head},
                         {"size", o.size},
                         {"outputs", o.outputs},
                         {"check", o.check},
                         {"json", o.json}});
}

}  // namespace sluice::cli
