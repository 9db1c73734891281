// `sluice apply`: what is wrong with the command line is said here, from the catalogue; the runtime
// reads the files, fires the node or the network once and writes what comes out.
#include <algorithm>
#include <set>

#include "engine/base/file_ending.h"
#include "engine/graph/graph_node.h"
#include "tools/cli/cli.h"

namespace sluice::cli {
namespace {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Why the node cannot be fired alone; "" where it can.
std::string refusal(const Spec& spec) {
  const std::string& name = spec.name;
  if (spec.is_network) return "";
  const auto works_alone = {"transform", "augment", "loss", "metric", "model"};
  if (spec.access != Access::none)
    return name +
           " needs a network; apply runs nodes without one: put it in a graph, as "
           "graphs/predict.json does";
  if (spec.arity == Arity::source)
    return name + " is a source: it makes samples of its own and takes none";
  if (spec.arity == Arity::gather || spec.arity == Arity::shuffle)
    return name + " works on many samples, apply on one";
  if (spec.family == "io" || spec.family == "output")
    return name + " reads or writes files itself; apply does that for --in and --out";
  if (std::find(works_alone.begin(), works_alone.end(), spec.family) == works_alone.end())
    return name + " hands samples on as they are (family " + spec.family +
           "): there is nothing to apply";
  if (spec.ins.size() != 1)
    return name + " has " + std::to_string(spec.ins.size()) + " inputs; apply fills one";
  return "";
}

bool has_extension(const std::string& file, std::initializer_list<const char*> extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const char* e) { return has_ending(file, e); });
}

// "key=FILE", each key and, of what is written, each file once.
Json files_of(const std::string& option, const std::vector<std::string>& texts, bool is_out) {
  Json pairs = Json::array();
  std::set<std::string> keys, files;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw UsageError(option + " " + text + ": expected key=FILE");
    const std::string key = text.substr(0, equals), file = text.substr(equals + 1);
    if (!keys.insert(key).second) throw UsageError(option + " " + key + " is given twice");
    if (is_out && !files.insert(file).second)
      throw UsageError(option + " writes " + file + " twice");
    if (is_out && key == "state" && file.ends_with(".safetensors")) {
      pairs.push_back({key, file});
      continue;
    }
    if (is_out && !has_extension(file, {".npy", ".nii", ".nii.gz"}))
      throw UsageError(option + " " + text + ": .npy, .nii and .nii.gz are written");
    if (!is_out && !has_extension(file, {".npy", ".nii", ".nii.gz", ".nrrd", ".mha", ".png"}))
      throw UsageError(option + " " + text +
                       ": .npy, .nii, .nii.gz, .nrrd, .mha and .png are read");
    pairs.push_back({key, file});
  }
  return pairs;
}

std::vector<Override> params_of(const std::vector<std::string>& texts) {
  std::vector<Override> params;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError("--param " + text + ": expected name=value");
    params.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return params;
}

// A node whose default `keys` are not all among the inputs works on all inputs, in their order;
// `keys` that were given must be there.
void settle_keys(LoneNode& node, const Json& inputs) {
  if (!node.params.contains("keys")) return;
  if (node.params["keys"].is_string()) node.params["keys"] = Json::array({node.params["keys"]});
  Json all = Json::array();
  for (const auto& pair : inputs) all.push_back(pair[0]);
  const bool is_given = std::find(node.given.begin(), node.given.end(), "keys") != node.given.end();
  for (const auto& key : node.params["keys"]) {
    if (std::find(all.begin(), all.end(), key) != all.end()) continue;
    if (is_given && !node.params.value("allow_missing_keys", false))
      throw UsageError("--param keys names " + key.dump() + ", which no --in gives");
    if (is_given) continue;
    node.params["keys"] = all;
    return;
  }
}

// What a graph's "models" may say of every network, taken out of `params`; null: no weights.
Json weights_of(std::vector<Override>& params) {
  Json weights{{"file", ""}, {"key", ""}, {"strip_prefix", ""}, {"partial", false}};
  std::erase_if(params, [&](const Override& o) {
    if (o.path == "partial") {
      if (o.value != "true" && o.value != "false")
        throw UsageError("--param partial=" + o.value + ": expected true or false");
      weights["partial"] = o.value == "true";
      return true;
    }
    const char* name = o.path == "weights"        ? "file"
                       : o.path == "weights_key"  ? "key"
                       : o.path == "strip_prefix" ? "strip_prefix"
                                                  : nullptr;
    if (!name) return false;
    const Json value = Json::parse(o.value, nullptr, /*allow_exceptions=*/false);
    weights[name] = value.is_string() ? value : Json(o.value);
    return true;
  });
  return weights["file"] == "" ? Json() : weights;
}

int apply_checked(const Options& options, Diagnostics& diagnostics) {
  const Spec* known = catalogue().find(options.name);
  const bool network = known && known->is_network;
  std::vector<Override> params = params_of(options.param);
  const Json weights = network ? weights_of(params) : Json();
  LoneNode node = check_lone_node(options.name, params, catalogue(), diagnostics);
  if (node.spec)
    if (const std::string why = refusal(*node.spec); !why.empty()) throw UsageError(why);
  if (!diagnostics.ok()) {
    print(diagnostics);
    return code(Exit::usage);
  }
  const Json in = files_of("--in", options.ins, false), out = files_of("--out", options.outs, true);
  if (in.empty()) throw UsageError("give the node its fields: --in key=FILE");
  const Json grad = files_of("--grad", options.grads, false),
             out_grad = files_of("--out-grad", options.out_grads, true);
  if (!grad.empty() && out_grad.empty() && !options.check_grad)
    throw UsageError("--grad alone says nothing: ask for gradients by --out-grad key=FILE");
  if ((!out_grad.empty() || options.check_grad) && node.spec->family == "metric")
    throw UsageError(node.spec->name + " is a metric: it has no gradients");
  if (options.train && !network)
    throw UsageError("--train is of networks; " + node.spec->name + " is a node");
  if (!network) settle_keys(node, in);
  return run_in_runtime({{"command", "apply"},
                         {"type", node.spec->name},
                         {"params", node.params},
                         {"in", in},
                         {"out", out},
                         {"grad", grad},
                         {"out_grad", out_grad},
                         {"check_grad", options.check_grad},
                         {"weights", weights},
                         {"train", options.train},
                         {"seed", options.seed},
                         {"json", options.json}});
}

}  // namespace

int apply(const Options& options) {
  try {
    Diagnostics diagnostics;
    return apply_checked(options, diagnostics);
  } catch (const UsageError& e) {
    print_error(e.what());
    return code(Exit::usage);
  }
}

}  // namespace sluice::cli
