#include "tools/runtime/prune.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/shell_word.h"
#include "engine/graph/merge.h"
#include "engine/run/registry.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "kernels/net/prune.h"
#include "tools/edge/manifest.h"
#include "tools/runs/files.h"
#include "tools/runtime/network.h"
#include "tools/runtime/new_folder.h"
#include "tools/runtime/package.h"
#include "tools/runtime/write_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// What networks call the channels of their levels.
const std::vector<std::string> channel_params{
    "channels", "filters", "features", "feature_channels", "init_filters", "features_per_stage"};

std::int64_t fewer(std::int64_t channels, double share, std::int64_t multiple) {
  const double rounded =
      std::round(share * static_cast<double>(channels) / static_cast<double>(multiple));
  return std::min(channels, std::max<std::int64_t>(1, std::llround(rounded)) * multiple);
}

// The network's parameters with fewer channels; which of them changed.
Json pruned(const Json& params, double share, std::int64_t multiple, std::string& changed) {
  Json all = params;
  for (const auto& name : channel_params) {
    if (!all.contains(name) || all[name].empty()) continue;
    Json& channels = all[name];
    if (channels.is_number())
      channels = fewer(channels, share, multiple);
    else
      for (Json& n : channels) n = fewer(n, share, multiple);
    changed = name;
    if (channels != params[name]) return all;
    throw Error(Exit::usage, name + " " + params[name].dump() +
                                 " would stay as they are: a smaller "
                                 "share or --multiple takes some out");
  }
  throw Error(Exit::usage,
              fmt::format("the graph gives the network none of {}: write its channels into it",
                          fmt::join(channel_params, ", ")));
}

// The network, and those that follow it or that it follows: they have one shape.
std::set<std::string> of_one_shape(const Graph& graph, const std::string& name) {
  std::set<std::string> all{name};
  for (std::size_t before = 0; before != all.size();) {
    before = all.size();
    for (const GraphNode& n : graph.nodes) {
      if (n.spec->follows_param.empty()) continue;
      const std::string mean = n.params.at("net"), of = n.params.at(n.spec->follows_param);
      if (all.contains(mean) || all.contains(of)) all.insert({mean, of});
    }
  }
  return all;
}

// Where the run was begun, from which its graph's relative paths count; "" where that is here.
std::string begun_elsewhere(const fs::path& run) {
  const std::string folder = runs::text(runs::read_json(run / "environment.json"), "folder");
  std::error_code unknown;
  const bool elsewhere =
      fs::is_directory(folder, unknown) && !fs::equivalent(folder, ".", unknown) && !unknown;
  return elsewhere ? folder : "";
}

double multiply_adds(const BuiltNetwork& network) { return network.last_work().multiply_adds; }

std::int64_t count(const Network& network) {
  std::int64_t n = 0;
  for (const auto& [name, t] : network.parameters()) n += t.numel();
  return n;
}

}  // namespace

int prune_command(const Json& request) {
  const fs::path run = request.at("run").get<std::string>();
  if (!fs::is_directory(run) || is_package(run))
    throw Error(Exit::usage, run.string() + ": is no run's folder");
  NewFolder folder(request.at("out").get<std::string>());
  GraphNetwork made = build_network(run.string(), request.at("net"), {});
  const GraphModel& model = *made.model;
  begin_with(*made.network, model.name, {.file = run.string()}, true);

  Json params = model.params;
  if (params.contains("precision")) params["precision"] = "float32";
  std::string changed;
  params = pruned(params, request.at("share"), request.at("multiple"), changed);
  const auto network = Registry::global().make_network(model.spec->name, params);
  auto& small = dynamic_cast<BuiltNetwork&>(*network);
  Step::Size image{1, made.built->channels()};
  image.insert(image.end(), made.extents.begin(), made.extents.end());
  at::manual_seed(0);
  try {
    prune_into(made.built->net(), small.net(), at::randn(image));
  } catch (const Error& e) {
    throw Error(e.exit, "models." + model.name + ": " + e.what());
  }

  std::map<std::string, at::Tensor> tensors;
  for (const auto& named : {network->parameters(), network->buffers()})
    for (const auto& [name, t] : named) tensors[name] = t;
  write_safetensors(folder.path() / "model.safetensors", tensors);
  Diagnostics of_a_graph_that_was_read;
  Json graph = read_graph_files({(run / "graph.json").string()}, of_a_graph_that_was_read)->root;
  const std::string begun = begun_elsewhere(run);
  const fs::path place =
      begun.empty() ? folder.place() : fs::absolute(folder.place()).lexically_normal();
  for (const std::string& name : of_one_shape(made.graph, model.name)) {
    Json& entry = graph["models"][name];
    entry[changed] = params[changed];
    entry["weights"] = (place / "model.safetensors").string();
    for (const char* key : {"weights_key", "strip_prefix", "partial"}) entry.erase(key);
  }
  const std::int64_t epochs = made.graph.run.epochs;
  graph["run"]["epochs"] = std::max<std::int64_t>(1, (2 * epochs + 2) / 3);
  write_text(folder.path() / "graph.json", graph.dump(2) + "\n");
  folder.keep();
  const double before = multiply_adds(*made.built), after = multiply_adds(small);
  std::cout << fmt::format(
      "{}: {} {} of {}; {} of {} weights, {:.2f} of the multiply-adds\n"
      "`{}sluice run {}` trains it on for {}; until then it segments worse\n",
      model.name, changed, params[changed].dump(), model.params[changed].dump(),
      with_commas(count(small)), with_commas(count(*made.network)), after / before,
      begun.empty() ? "" : "cd " + shell_word(begun) + " && ",
      shell_word((place / "graph.json").string()), counted(graph["run"]["epochs"], "epoch"));
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
