#include "tools/edge/package.h"

#include <sha256.h>

#include <algorithm>
#include <iostream>

#include "engine/base/diagnostic.h"
#include "engine/base/error.h"
#include "engine/base/message.h"
#include "tools/edge/manifest.h"

namespace sluice::edge {
namespace {

namespace fs = std::filesystem;

std::string sha256(const fs::path& file) {
  char text[SHA256_DIGEST_STRING_LENGTH];
  if (!SHA256File(file.c_str(), text)) throw IoError(file.string() + ": cannot read");
  return text;
}

constexpr auto elsewhere = "`sluice run` runs what sluice-edge does not";

// What packages hold are Sluice's nodes, so none is misspelt.
Diagnostics for_edge(const Diagnostics& said) {
  Diagnostics all;
  for (Diagnostic d : said.all()) {
    if (d.code == "SL0203") d.hint = "sluice-edge does not have it";
    all.add(std::move(d));
  }
  return all;
}

Graph read_graph(const fs::path& folder, const fs::path& images) {
  Diagnostics diagnostics;
  const std::string file = (folder / "graph.json").string();
  const DocumentPtr document = read_document(file, diagnostics);
  std::vector<Override> overrides{{"vars.images", Json(images.string()).dump()}};
  if (document && document->root.value("models", Json::object()).size() == 1)
    overrides.push_back(
        {"models." + document->root["models"].items().begin().key(),
         Json{{"type", "onnx"}, {"file", (folder / "model.onnx").string()}}.dump()});
  auto graph = load_graph(document, catalogue(), overrides, diagnostics);
  if (graph && graph->models.size() == 1) return std::move(*graph);
  if (graph)
    throw Error(Exit::usage, file + ": has " + std::to_string(graph->models.size()) +
                                 " networks; sluice-edge runs graphs of one");
  for_edge(diagnostics).print(std::cerr, false);
  throw Error(Exit::usage, file + ": " + elsewhere);
}

// From the source on, each node read by one other.
std::vector<const GraphNode*> in_order(const Graph& graph) {
  std::vector<const GraphNode*> order;
  int last = -1;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode* next = nullptr;
    for (const GraphNode& node : graph.nodes) {
      const bool follows =
          last < 0 ? node.inputs.empty() : node.inputs.size() == 1 && node.inputs[0].from == last;
      if (!follows) continue;
      if (next)
        throw Error(Exit::usage, node.place.str() + ": \"" + node.path + "\" stands beside \"" +
                                     next->path + "\"; sluice-edge runs one chain of nodes, " +
                                     elsewhere);
      next = &node;
    }
    if (!next) break;
    order.push_back(next);
    last = static_cast<int>(next - graph.nodes.data());
  }
  return order;
}

}  // namespace

Package::Package(const fs::path& folder, const fs::path& images, const fs::path& out, int threads,
                 bool whole) {
  require_whole(folder, read_manifest(folder), whole, sha256);
  const Graph graph = read_graph(folder, images);
  if (!fs::exists(folder / "model.onnx"))
    throw Error(Exit::usage, folder.string() + ": has no model.onnx, which sluice-edge runs");
  engine_ = std::make_unique<Engine>(folder / "model.onnx", threads);
  for (const GraphNode* node : in_order(graph)) {
    steps_.push_back({node->path, make(*node), node->on_error == OnError::quarantine});
    steps_.back().node->open({engine_.get(), out});
  }
}

std::optional<Case> Package::run(const DataItem& item) const {
  Case c;
  c.name = item.name;
  c.files = {item.files.begin(), item.files.end()};
  for (const Step& step : steps_) try {
      step.node->run(c);
    } catch (const Error& e) {
      const std::string what = step.name + ": " + e.what();
      const bool of_sample = e.exit == Exit::data || e.exit == Exit::non_finite;
      if (!step.quarantines || !of_sample) throw Error(e.exit, what);
      tell("left out: " + what);
      return std::nullopt;
    }
  return c;
}

}  // namespace sluice::edge
