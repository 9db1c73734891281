// The data set that a graph trains on: what its sources list.
#include "engine/base/cause.h"
#include "engine/session/session.h"
#include "engine/state/sample.h"
#include "kernels/lists/data_list.h"
#include "tools/runtime/data/data_set.h"

namespace sluice {
namespace {

std::unique_ptr<Node> opened(const Graph& graph, const GraphNode& n) {
  auto node = Registry::global().make_node(n.spec->name, n.params);
  OpenContext context;
  context.node = n.path;
  context.seed = static_cast<std::uint64_t>(graph.run.seed);
  node->open(context);
  return node;
}

// The records of a source. One that cannot be opened is a finding.
void add_cases(DataSet& set, const Graph& graph, const GraphNode& n, const std::string& split) {
  std::unique_ptr<Node> node;
  try {
    node = opened(graph, n);
  } catch (const Error&) {
    const Cause why = cause(Exit::data);
    if (why.of_machine) throw;
    return set.find("list", "nodes." + n.path, why.text);
  }
  const std::uint64_t items = node->item_count().value_or(0);
  for (std::uint64_t i = 0; i < items; ++i) {
    const SamplePtr record = node->item_record(i);
    if (!record) return;
    DataCase one{record->name, split, {}};
    for (const auto& [key, field] : record->fields())
      if (!field.tensor.defined() && !field.geometry().path.empty())
        one.files.emplace_back(key, field.geometry().path);
    if (one.files.empty()) return;  // it makes its samples: there is nothing to look at
    set.cases.push_back(std::move(one));
  }
}

// What load_image was told of labels: their keys and the highest one.
void read_loader(DataSet& set, const GraphNode& n) {
  const Json& keys = n.params.at("label_keys");
  set.label_keys.clear();
  for (const Json& key : keys) set.label_keys.insert(key.get<std::string>());
  const Json& most = n.params.at("max_label");
  if (!most.is_number_integer() || most.get<std::int64_t>() > 4096) return;
  for (std::int64_t label = 0; label <= most.get<std::int64_t>(); ++label)
    set.labels.emplace(label, "");
  set.labels_from = "nodes." + n.path + ".max_label";
}

// Where nobody says which labels there may be, the decathlon's list does.
void read_list(DataSet& set, const GraphNode& n) {
  const std::filesystem::path list =
      std::filesystem::path(n.params.at("root").get<std::string>()) / "dataset.json";
  try {
    const auto document = read_json(list);
    for (const auto& [number, name] : document.at("labels").items())
      set.labels[std::stoll(number)] = name.is_string() ? name.get<std::string>() : "";
    set.labels_from = list.string();
  } catch (const std::exception&) {
    set.labels.clear();  // the source says what is wrong with its list
  }
}

}  // namespace

DataSet data_set_of_graph(const Options& options) {
  std::optional<Graph> graph;
  std::optional<Plan> plan;
  if (!load_plan(options, graph, plan)) throw Error(Exit::usage, "the graph is not right");
  DataSet set;
  set.layout = "the sources of a graph";
  set.labelled = false;
  for (const PlanStream& stream : plan->streams) {
    const GraphNode& source = *plan->nodes[static_cast<std::size_t>(stream.source)].graph;
    add_cases(set, *graph, source, stream.trains ? "training" : source.path);
  }
  for (const GraphNode& n : graph->nodes)
    if (n.spec->name == "load_image") read_loader(set, n);
  for (const GraphNode& n : graph->nodes)
    if (n.spec->name == "decathlon" && set.labels.empty()) read_list(set, n);
  if (set.cases.empty() && set.findings.empty())
    throw Error(Exit::usage, "no source of this graph lists files");
  return set;
}

}  // namespace sluice
