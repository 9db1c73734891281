// `sluice weights`: the runtime reads the file.
#include "tools/cli/cli.h"

namespace sluice::cli {

int weights(const Options& o) {
  if (!o.out.empty() && !o.out.ends_with(".safetensors")) {
    print_error("--out " + o.out + ": weights are written as .safetensors");
    return code(Exit::usage);
  }
  return run_in_runtime({{"command", "weights"},
                         {"file", o.data},
                         {"key", o.key},
                         {"strip_prefix", o.strip_prefix},
                         {"out", o.out},
                         {"json", o.json}});
}

}  // namespace sluice::cli
