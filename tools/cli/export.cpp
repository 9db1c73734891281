// `sluice export`, `verify`, `serve`, `prune` and `calibrate`: the runtime does them.
#include <algorithm>
#include <filesystem>

#include "tools/cli/cli.h"
#include "tools/runs/run_of.h"

namespace sluice::cli {

namespace fs = std::filesystem;

// RUN/checkpoints/best is the run's network with that checkpoint's weights.
static Options of_checkpoint(Options o) {
  const std::string run = run_of(o.run).string();
  if (run != o.run && o.weights.empty()) o.weights = o.run;
  o.run = run;
  return o;
}

int export_network(const Options& given) {
  const Options o = of_checkpoint(given);
  if (!o.package.empty()) {
    keep_signals();
    return run_in_runtime({{"command", "package"},
                           {"run", o.run},
                           {"net", o.key},
                           {"weights", o.weights},
                           {"package", o.package},
                           {"selftest", o.selftest},
                           {"map", o.map},
                           {"json", o.json}});
  }
  if (!o.out.ends_with(".onnx")) {
    print_error(o.out.empty() ? "name a file, -o net.onnx, or a folder, --package DIR"
                              : o.out + ": networks are exported as .onnx");
    return code(Exit::usage);
  }
  return run_in_runtime({{"command", "export"},
                         {"run", o.run},
                         {"net", o.key},
                         {"weights", o.weights},
                         {"out", o.out},
                         {"precision", o.precision_name},
                         {"scales", o.scales},
                         {"head", o.head},
                         {"size", o.size},
                         {"outputs", o.outputs},
                         {"check", o.check},
                         {"json", o.json}});
}

int verify_package(const Options& o) {
  keep_signals();
  return run_in_runtime({{"command", "verify"}, {"package", o.package}, {"json", o.json}});
}

int serve(const Options& o) {
  keep_signals();
  return run_in_runtime({{"command", "serve"},
                         {"package", o.package},
                         {"host", o.host},
                         {"port", o.port},
                         {"queue", o.queue},
                         {"max_bytes", o.budget.value_or(1'000'000'000)},
                         {"timeout_s", o.timeout}});
}

int prune(const Options& o) {
  return run_in_runtime({{"command", "prune"},
                         {"run", o.run},
                         {"net", o.key},
                         {"share", o.share},
                         {"multiple", o.multiple},
                         {"out", o.out}});
}

int calibrate(const Options& o) {
  keep_signals();
  return run_in_runtime({{"command", "calibrate"},
                         {"graph", o.run},
                         {"net", o.key},
                         {"weights", o.weights},
                         {"samples", o.samples},
                         {"method", o.method},
                         {"asymmetric", o.asymmetric},
                         {"set", o.set},
                         {"step_threads", o.step_threads},
                         {"out", o.out}});
}

}  // namespace sluice::cli
