#include "engine/session/differences.h"

#include <map>
#include <set>

namespace sluice {
namespace {

// Of the machine, or in words: no result depends on them.
const std::set<std::string> beside{"run.threads",
                                   "run.io_threads",
                                   "run.watchdog_s",
                                   "run.checkpoint.keep",
                                   "run.checkpoint.every_epochs",
                                   "run.checkpoint.every_s"};

struct Setting {
  Json value;
  bool orders = false;
};
using Settings = std::map<std::string, Setting>;

// The nodes from whose samples an updater's batches are made.
std::set<int> feeds_updates(const Graph& graph) {
  std::set<int> found;
  std::vector<int> open;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].spec->access == Access::update) open.push_back(static_cast<int>(i));
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (!found.insert(i).second) continue;
    for (const GraphInput& in : graph.nodes[static_cast<std::size_t>(i)].inputs)
      open.push_back(in.from);
  }
  return found;
}

// Sources, what makes several samples of one or one of several, and what chooses an epoch's items:
// a place in an epoch counts what leaves them.
void add_node(const Graph& graph, const GraphNode& n, bool feeds, Settings& all) {
  const std::string at = "nodes." + n.path + ".";
  const bool chooses = n.spec->chooses_items;
  const bool orders = feeds && (chooses || n.spec->arity != Arity::one_to_one);
  all[at + "type"] = {n.spec->name, orders};
  for (const auto& [name, value] : n.params.items())
    if (name != n.spec->credits_param && (chooses || !n.spec->is_cache))
      all[at + name] = {value, orders};
  Json inputs = Json::array();
  for (const GraphInput& in : n.inputs)
    inputs.push_back(graph.nodes[static_cast<std::size_t>(in.from)].path);
  all[at + "in"] = {inputs, orders && n.spec->arity != Arity::source};
  all[at + "after"] = {n.after, false};
  all[at + "every_epochs"] = {n.every_epochs, false};
}

Settings settings(const Graph& graph) {
  Settings all;
  const std::set<int> feeding = feeds_updates(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    add_node(graph, graph.nodes[i], feeding.contains(static_cast<int>(i)), all);
  for (const GraphModel& m : graph.models) {
    all["models." + m.name + ".type"] = {m.spec->name};
    for (const auto& [name, value] : m.params.items())
      all["models." + m.name + "." + name] = {value};
  }
  Json run = graph.resolved.value("run", Json::object());
  const Json checkpoint = run.value("checkpoint", Json());
  if (checkpoint.is_object()) {
    run.erase("checkpoint");
    for (const auto& [name, value] : checkpoint.items()) run["checkpoint." + name] = value;
  }
  for (const auto& [name, value] : run.items())
    if (!beside.contains("run." + name)) all["run." + name] = {value};
  return all;
}

}  // namespace

Json data_settings(const Graph& graph) {
  Json all = Json::object();
  for (const auto& [path, setting] : settings(graph))
    if (!path.starts_with("run.")) all[path] = setting.value;
  all["run.seed"] = graph.run.seed;
  all["run.fuse"] = graph.run.fuse;
  all["run.lazy"] = graph.run.lazy;
  return all;
}

std::vector<Difference> differences(const Graph& before, const Graph& after) {
  const Settings was = settings(before), is = settings(after);
  std::vector<Difference> all;
  const auto text = [](const Settings& of, const std::string& path) {
    const auto it = of.find(path);
    return it == of.end() ? std::string("not there")
                          : it->second.value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::set<std::string> paths;
  for (const auto* of : {&was, &is})
    for (const auto& [path, setting] : *of) paths.insert(path);
  for (const std::string& path : paths) {
    const auto a = was.find(path), b = is.find(path);
    if (text(was, path) == text(is, path)) continue;
    const std::string type = path.substr(0, path.rfind('.')) + ".type";
    if (path != type && text(was, type) != text(is, type)) continue;  // others in all
    const bool orders = (a != was.end() && a->second.orders) || (b != is.end() && b->second.orders);
    all.push_back({path, text(was, path), text(is, path), orders});
  }
  return all;
}

}  // namespace sluice
