// `sluice new`: what cannot be made is refused here; the runtime looks at the folder and writes.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "tools/cli/cli.h"
#include "tools/nnunet/planner.h"

namespace sluice::cli {

// nnU-Net's plan: where the fingerprint is given and no graph is wanted, without the runtime.
static int new_by_recipe(const Options& o) {
  std::vector<std::string> names;
  for (const auto& planner : nnunet::planners()) names.push_back(planner.name);
  const std::string name = o.planner.empty() ? "default" : o.planner;
  const auto refuse = [](const std::string& message) {
    print_error(message);
    return code(Exit::usage);
  };
  if (o.name != "segmentation") return refuse("--recipe is for segmentation");
  if (o.recipe != "nnunet") return refuse("--recipe is nnunet, not " + o.recipe);
  const auto* planner = nnunet::find_planner(name);
  if (!planner) {
    const std::string hint = did_you_mean(name, names);
    return refuse("there is no planner " + name + (hint.empty() ? "" : "; " + hint));
  }
  const double gpu_memory = o.gpu_memory.value_or(planner->gpu_memory);
  if (!(gpu_memory > 0) || !std::isfinite(gpu_memory))
    return refuse("--gpu-memory is a number of GB above 0");
  if (o.folds < 2) return refuse("--folds is 2 or more");
  if (o.json && !o.plan_only) return refuse("--json goes with --plan-only");
  if (!o.plan_only && o.out.empty())
    return refuse("--recipe nnunet writes several graphs: name a folder with -o");
  if (o.plan_only && !o.fingerprint.empty()) {
    try {
      const auto dataset = nnunet::read_dataset(o.data);
      const auto plans = nnunet::make_plans(
          dataset, nnunet::read_fingerprint(o.fingerprint, dataset), *planner, gpu_memory);
      std::cout << (o.json ? dump(nnunet::plans_json(plans)) : nnunet::plans_text(plans));
      return flushed(code(Exit::done));
    } catch (const Error& e) {
      print_error(e.what());
      return code(e.exit);
    }
  }
  return run_in_runtime({{"command", "new"},
                         {"kind", "nnunet"},
                         {"folder", o.data},
                         {"out", o.out},
                         {"planner", name},
                         {"gpu_memory", gpu_memory},
                         {"fingerprint", o.fingerprint},
                         {"write_fingerprint", o.write_fingerprint},
                         {"plan_only", o.plan_only},
                         {"folds", o.folds},
                         {"probabilities", o.probabilities},
                         {"json", o.json}});
}

int new_graph(const Options& options) {
  const std::vector<std::string> kinds{"segmentation",   "classification",     "prediction",
                                       "postprocessing", "best_configuration", "bundle"};
  if (std::find(kinds.begin(), kinds.end(), options.name) == kinds.end()) {
    const std::string hint = did_you_mean(options.name, kinds);
    print_error(
        "new graphs are for segmentation, classification, prediction, postprocessing, "
        "best_configuration or a bundle, not for " +
        options.name + (hint.empty() ? "" : "; " + hint));
    return code(Exit::usage);
  }
  if (options.data.empty()) {
    print_error("name a folder with data: sluice new " + options.name + " DIR");
    return code(Exit::usage);
  }
  if (!options.predictors.empty() && options.name != "prediction") {
    print_error("--weights is for predictions");
    return code(Exit::usage);
  }
  const bool of_bundle = options.name == "bundle";
  if (!of_bundle && (!options.configs.empty() || !options.set.empty() || !options.task.empty() ||
                     options.strict || options.partial)) {
    print_error("--config, --set, --task, --strict and --partial are for bundles");
    return code(Exit::usage);
  }
  if (options.name == "best_configuration" && options.out.empty()) {
    print_error("best_configuration writes several files: name a folder with -o");
    return code(Exit::usage);
  }
  if (!options.task.empty() && options.task != "inference" && options.task != "train") {
    print_error("--task is inference or train, not " + options.task);
    return code(Exit::usage);
  }
  if (!options.recipe.empty()) return new_by_recipe(options);
  return run_in_runtime({{"command", "new"},
                         {"kind", options.name},
                         {"folder", options.data},
                         {"out", options.out},
                         {"weights", options.predictors},
                         {"configs", options.configs},
                         {"set", options.set},
                         {"task", options.task.empty() ? "inference" : options.task},
                         {"strict", options.strict},
                         {"partial", options.partial}});
}

}  // namespace sluice::cli
