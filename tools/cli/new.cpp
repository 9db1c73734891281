// `sluice new`: what cannot be made is refused here; the runtime looks at the folder and writes.
#include <algorithm>

#include "tools/cli/cli.h"

namespace sluice::cli {

int new_graph(const Options& options) {
  const std::vector<std::string> kinds{"segmentation", "classification", "prediction"};
  if (std::find(kinds.begin(), kinds.end(), options.name) == kinds.end()) {
    const std::string hint = did_you_mean(options.name, kinds);
    print_error("new graphs are for segmentation, classification or prediction, not for " +
                options.name + (hint.empty() ? "" : "; " + hint));
    return code(Exit::usage);
  }
  if (!options.weights.empty() && options.name != "prediction") {
    print_error("--weights is for predictions");
    return code(Exit::usage);
  }
  return run_in_runtime({{"command", "new"},
                         {"kind", options.name},
                         {"folder", options.data},
                         {"out", options.out},
                         {"weights", options.weights}});
}

}  // namespace sluice::cli
