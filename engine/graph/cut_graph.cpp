#include "engine/graph/cut_graph.h"

#include <set>

#include "engine/base/error.h"
#include "engine/graph/networks_of.h"

namespace sluice {
namespace {

struct Port {
  int node, port;
};

// What may have been meant: of a part its nodes.
std::string unknown(const Graph& graph, const std::string& from) {
  std::vector<std::string> known;
  std::string inside;
  for (const GraphNode& n : graph.nodes) {
    known.push_back(n.path);
    if (n.path.starts_with(from + "/")) inside += (inside.empty() ? "" : ", ") + n.path;
  }
  const std::string text = "no node is called \"" + from + "\"";
  if (!inside.empty()) return text + "; the part's nodes are " + inside;
  const std::string hint = did_you_mean(from, known);
  return text + (hint.empty() ? "" : "; " + hint);
}

// "split.label": the node's path, else that and a port's name.
Port find_port(const Graph& graph, const std::string& from) {
  int node = graph.find(from);
  std::string port;
  if (const auto dot = from.rfind('.'); node < 0 && dot != from.npos) {
    node = graph.find(from.substr(0, dot));
    port = from.substr(dot + 1);
  }
  if (node < 0) throw Error(Exit::usage, unknown(graph, from));
  const GraphNode& n = graph.nodes[static_cast<std::size_t>(node)];
  if (n.spec->outs.empty())
    throw Error(Exit::usage,
                "\"" + n.path + "\" (" + n.spec->name + ") sends nothing that could be taken");
  const int index = port.empty() ? 0 : n.spec->find_out(port);
  if (index >= 0) return {node, index};
  std::vector<std::string> outs;
  for (const PortSpec& out : n.spec->outs) outs.push_back(out.name);
  const std::string hint = did_you_mean(port, outs);
  throw Error(Exit::usage, "\"" + n.path + "\" (" + n.spec->name + ") has no output \"" + port +
                               "\"" + (hint.empty() ? "" : "; " + hint));
}

// With what must be opened before one of them.
std::set<int> needed_by(const Graph& graph, int node) {
  std::set<int> found;
  std::vector<int> open{node};
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (!found.insert(i).second) continue;
    const GraphNode& n = graph.nodes[static_cast<std::size_t>(i)];
    for (const GraphInput& in : n.inputs) open.push_back(in.from);
    for (const std::string& path : n.needs) open.push_back(graph.find(path));
  }
  return found;
}

}  // namespace

Graph cut_graph(Graph graph, const std::string& from, GraphNode sink) {
  const Port end = find_port(graph, from);
  const std::set<int> kept = needed_by(graph, end.node);
  std::vector<int> moved(graph.nodes.size(), -1);
  std::vector<GraphNode> nodes;
  std::set<std::string> networks, paths;
  for (const int i : kept) {  // in file order
    GraphNode& n = graph.nodes[static_cast<std::size_t>(i)];
    if (n.spec->access == Access::update)
      throw Error(Exit::usage, "\"" + from + "\" stands after \"" + n.path +
                                   "\", which trains a network: name a node before that");
    moved[static_cast<std::size_t>(i)] = static_cast<int>(nodes.size());
    n.after = "";
    n.every_epochs = 1;
    for (std::string& name : networks_of(n)) networks.insert(std::move(name));
    paths.insert(n.path);
    nodes.push_back(std::move(n));
  }
  for (GraphNode& n : nodes)
    for (GraphInput& in : n.inputs) in.from = moved[static_cast<std::size_t>(in.from)];
  const int last = moved[static_cast<std::size_t>(end.node)];
  sink.place = nodes[static_cast<std::size_t>(last)].place;
  sink.inputs = {{0, last, end.port, sink.place}};
  nodes.push_back(std::move(sink));
  graph.nodes = std::move(nodes);
  std::erase_if(graph.models, [&](const GraphModel& m) { return !networks.contains(m.name); });
  graph.run.stop.reset();
  graph.run.shards.reset();
  graph.run.checkpoint_every = 0;
  graph.run.checkpoint_every_s.reset();
  graph.run.checkpoint_best = "";
  graph.remarks.clear();  // of what is not used: most of it is cut off
  return graph;
}

}  // namespace sluice
