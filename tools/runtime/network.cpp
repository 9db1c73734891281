#include "tools/runtime/network.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "engine/base/error.h"
#include "engine/graph/merge.h"
#include "engine/run/registry.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int64_t>;

Graph read_graph(const fs::path& given) {
  const fs::path file = fs::is_directory(given) ? given / "graph.json" : given;
  Diagnostics diagnostics;
  std::optional<Graph> graph;
  if (const DocumentPtr document = read_graph_files({file.string()}, diagnostics))
    graph = load_graph(document, Registry::global().catalogue(), {}, diagnostics);
  if (!graph) {
    diagnostics.print(std::cerr, false);
    throw Error(Exit::usage, file.string() + ": is no graph whose network could be built");
  }
  return *graph;
}

// What the graph shows the network: windows, crops, or the size that it is made for.
Numbers size_of(const Graph& graph, const GraphModel& model, const Numbers& asked,
                std::size_t axes) {
  Numbers size = asked;
  const auto take = [&](const Json& params, const char* key) {
    if (size.empty() && params.contains(key) && !params[key].is_null())
      size = params[key].is_array() ? params[key].get<Numbers>()
                                    : Numbers{params[key].get<std::int64_t>()};
  };
  for (const char* key : {"img_size", "image_size"}) take(model.params, key);
  for (const auto& node : graph.nodes)
    if (node.params.value("net", "") == model.name) take(node.params, "roi_size");
  for (const auto& node : graph.nodes) take(node.params, "spatial_size");
  if (size.size() == 1) size = Numbers(axes, size[0]);
  const bool usable = size.size() == axes &&
                      std::all_of(size.begin(), size.end(), [](std::int64_t n) { return n > 0; });
  if (!asked.empty() && !usable)
    throw Error(Exit::usage, "--size wants " + std::to_string(axes) + " numbers above 0");
  return usable ? size : Numbers(axes, 64);
}

// What to do with a scripted module instead.
std::string in_pytorch(const std::string& net) {
  return ": in PyTorch, load into the module what `sluice weights RUN --strip-prefix " + net +
         ". -o FILE.safetensors` writes (strict=False), and torch.onnx.export() makes ONNX of it";
}

}  // namespace

const GraphModel& model_of(const Graph& graph, const std::string& name) {
  std::string all;
  for (const GraphModel& m : graph.models) {
    if (m.name == name || (name.empty() && graph.models.size() == 1)) return m;
    all += (all.empty() ? "" : ", ") + m.name;
  }
  if (all.empty()) throw Error(Exit::usage, "the graph has no network");
  throw Error(Exit::usage, name.empty() ? "the graph has several networks: --net " + all
                                        : "no network is called " + name + "; there are " + all);
}

GraphNetwork build_network(const std::string& run, const std::string& name, const Numbers& size) {
  GraphNetwork n{read_graph(run)};
  n.model = &model_of(n.graph, name);
  const std::string& type = n.model->spec->name;
  Json params = n.model->params;
  if (params.contains("precision")) params["precision"] = "float32";
  n.network = Registry::global().make_network(type, params);
  n.built = dynamic_cast<BuiltNetwork*>(n.network.get());
  if (!n.built)
    throw Error(Exit::usage, "a network of type " + type +
                                 " is a file of its own, whose steps are not known here" +
                                 (type == "torchscript" ? in_pytorch(n.model->name) : ""));
  n.network->initialise(0);
  n.extents = size_of(n.graph, *n.model, size, static_cast<std::size_t>(n.built->spatial_axes()));
  if (const std::string why = n.built->unfit(n.extents); !why.empty())
    throw Error(Exit::usage, type + " " + why + ": give --size");
  return n;
}

std::map<std::string, at::Tensor> GraphNetwork::tensors() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& named : {network->parameters(), network->buffers()})
    for (const auto& [name, t] : named) all[name] = t;
  return all;
}

std::string with_commas(std::int64_t n) {
  std::string text = std::to_string(n);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<std::size_t>(i), ",");
  return text;
}

}  // namespace sluice
