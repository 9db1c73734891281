// `sluice new`: what cannot be made is refused here; the runtime looks at the folder and writes.
#include <algorithm>

#include "tools/cli/cli.h"

namespace sluice::cli {

int new_graph(const Options& options) {
  const std::vector<std::string> kinds{"segmentation", "classification", "prediction", "bundle"};
  if (std::find(kinds.begin(), kinds.end(), options.name) == kinds.end()) {
    const std::string hint = did_you_mean(options.name, kinds);
    print_error(
        "new graphs are for segmentation, classification, prediction or a bundle, not for " +
        options.name + (hint.empty() ? "" : "; " + hint));
    return code(Exit::usage);
  }
  if (!options.weights.empty() && options.name != "prediction") {
    print_error("--weights is for predictions");
    return code(Exit::usage);
  }
  const bool of_bundle = options.name == "bundle";
  if (!of_bundle && (!options.configs.empty() || !options.set.empty() || !options.task.empty() ||
                     options.strict || options.partial)) {
    print_error("--config, --set, --task, --strict and --partial are for bundles");
    return code(Exit::usage);
  }
  if (!options.task.empty() && options.task != "inference" && options.task != "train") {
    print_error("--task is inference or train, not " + options.task);
    return code(Exit::usage);
  }
  return run_in_runtime({{"command", "new"},
                         {"kind", options.name},
                         {"folder", options.data},
                         {"out", options.out},
                         {"weights", options.weights},
                         {"configs", options.configs},
                         {"set", options.set},
                         {"task", options.task.empty() ? "inference" : options.task},
                         {"strict", options.strict},
                         {"partial", options.partial}});
}

}  // namespace sluice::cli
