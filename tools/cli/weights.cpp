// `sluice weights`: the runtime reads the file.
#include "tools/cli/cli.h"

namespace sluice::cli {

int weights(const Options& o) {
  if (!o.out.empty() && !o.out.ends_with(".safetensors") && !o.out.ends_with(".pth")) {
    print_error(o.out + ": weights are written as .safetensors, or as nnU-Net's .pth");
    return code(Exit::usage);
  }
  return run_in_runtime({{"command", "weights"},
                         {"file", o.data},
                         {"key", o.key},
                         {"strip_prefix", o.strip_prefix},
                         {"out", o.out},
                         {"json", o.json},
                         {"brief", o.brief}});
}

int convert(const Options& given) {
  Options o = given;
  o.brief = true;
  return weights(o);
}

}  // namespace sluice::cli
