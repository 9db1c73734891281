#include "engine/graph.h"

#include <algorithm>
#include <filesystem>

#include "engine/graph_reader.h"

namespace sluice {
namespace reading {

const Field* Written::find(std::string_view key) const {
  for (const Field& field : fields)
    if (field.key == key) return &field;
  return nullptr;
}

void Reading::error_at(const Field& field, std::string code, std::string message, std::string path,
                       std::string hint) const {
  Diagnostic d{Severity::error,
               std::move(code),
               std::move(message),
               field.place,
               std::move(path),
               std::move(hint),
               {}};
  if (!field.origin.empty()) d.notes.push_back(field.origin);
  diagnostics.add(std::move(d));
}

bool is_ignored(std::string_view key) { return key == "ui" || key.starts_with("x-"); }

bool is_name(std::string_view name, bool nested) {
  if (name.empty() || name.front() == '/' || name.back() == '/') return false;
  if (name.find("//") != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [&](unsigned char c) {
    return (c < 128 && std::isalnum(c)) || c == '_' || c == '-' || (nested && c == '/');
  });
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

bool expect_object(const Reading& reading, const Json& value, const Place& place,
                   const std::string& path) {
  if (value.is_object()) return true;
  reading.error("SL0201", "expected an object, found " + describe_json(value), place, path);
  return false;
}

namespace {

const std::vector<std::string> top_keys{"$schema", "name",   "desc",  "vars",
                                        "run",     "models", "parts", "nodes"};

void check_top(const Reading& reading) {
  const Json& root = reading.document->root;
  const Place place{reading.document, ""};
  for (const auto& [key, value] : root.items()) {
    if (is_ignored(key)) continue;
    if (std::find(top_keys.begin(), top_keys.end(), key) == top_keys.end())
      reading.error("SL0202", "unknown key \"" + key + "\"", place.child(key).key(), key,
                    did_you_mean(key, top_keys));
    if ((key == "name" || key == "desc" || key == "$schema") && !value.is_string())
      reading.error("SL0201", "expected a string, found " + describe_json(value), place.child(key),
                    key);
  }
}

std::string text_of(const Json& root, const char* key, std::string otherwise) {
  return root.contains(key) && root[key].is_string() ? root[key].get<std::string>() : otherwise;
}

// ---- models -------------------------------------------------------------------------------------

// Their names alone, for the nodes that name one: a faulty network is a network all the same.
void name_models(Reading& reading) {
  const Json& root = reading.document->root;
  if (!root.contains("models") || !root["models"].is_object()) return;
  for (const auto& [name, value] : root["models"].items()) reading.model_names.insert(name);
}

struct ModelSettings {
  std::string desc, weights;
  static const Spec& spec() {
    static const Spec s = Spec("network", "Settings of every network.")
                              .param("desc", &ModelSettings::desc, "What it is for.")
                              .param("weights", &ModelSettings::weights, "What to begin with.");
    return s;
  }
};

GraphModel read_model(Reading& reading, const std::string& name, const Written& written) {
  GraphModel model;
  model.name = name;
  model.place = written.place;
  ModelSettings settings;
  for (const ParamSpec& p : ModelSettings::spec().params)
    if (const Field* field = written.find(p.name))
      if (accepts(reading, *field, p, written.path + "." + p.name)) p.set(&settings, *field->value);
  model.weights = settings.weights;
  model.spec = find_spec(reading, written, true);
  std::vector<std::string> given;
  if (model.spec)
    read_params(reading, *model.spec, written, {"type", "weights", "desc"}, model.params, given);
  return model;
}

// The members as written, variables replaced.
Json plain(const Written& written) {
  Json out = Json::object();
  for (const Field& field : written.fields)
    if (field.value) out[field.key] = *field.value;
  return out;
}

void read_models(Reading& reading, Graph& graph) {
  const Json& root = reading.document->root;
  if (!root.contains("models")) return;
  const Place place{reading.document, "/models"};
  if (!expect_object(reading, root["models"], place, "models")) return;
  for (const auto& [name, value] : root["models"].items()) {
    const Place here = place.child(name);
    const std::string path = "models." + name;
    if (!is_name(name, false))
      reading.error("SL0204", "\"" + name + "\" cannot be the name of a network", here.key(), path,
                    "use letters, digits, _ and -");
    if (!expect_object(reading, value, here, path)) continue;
    const Written written = read_object(reading, value, here, path, {nullptr, &reading.vars});
    graph.models.push_back(read_model(reading, name, written));
    graph.resolved["models"][name] = plain(written);
  }
}

// ---- run ----------------------------------------------------------------------------------------

const Spec& stop_spec() {
  static const Spec s =
      Spec("run.stop", "When a run is good enough.")
          .param("metric", &StopRule::metric, "\"node.metric\".")
          .required()
          .param("at_least", &StopRule::at_least, "Stop once the metric is this high.")
          .param("at_most", &StopRule::at_most, "Stop once the metric is this low.");
  return s;
}

const Spec& checkpoint_spec() {
  static const Spec s =
      Spec("run.checkpoint", "When the run is saved.")
          .param("every_epochs", &RunSettings::checkpoint_every, "0: at the end only.")
          .at_least(0)
          .param("keep", &RunSettings::checkpoint_keep, "How many stay.")
          .at_least(1);
  return s;
}

// Reads the object under `key` of run against a Spec, into `target`. False where it is faulty.
bool read_group(Reading& reading, const Field& field, const Spec& spec, void* target) {
  if (!field.value) return false;
  const std::string path = spec.name;
  if (!field.value->is_object()) {
    reading.error_at(field, "SL0201", "expected an object, found " + describe_json(*field.value),
                     path);
    return false;
  }
  const auto before = reading.diagnostics.errors();
  const Written written =
      read_object(reading, *field.value, field.place, path, {nullptr, &reading.vars});
  Json params = Json::object();
  std::vector<std::string> given;
  read_params(reading, spec, written, {}, params, given);
  if (reading.diagnostics.errors() != before) return false;
  spec.apply(target, params);
  return true;
}

void read_stop(Reading& reading, const Field& field, RunSettings& run) {
  StopRule stop;
  stop.place = field.place;
  if (!read_group(reading, field, stop_spec(), &stop)) return;
  if (stop.at_least.has_value() == stop.at_most.has_value())
    reading.error_at(field, "SL0208", "run.stop needs one of \"at_least\" and \"at_most\"",
                     "run.stop");
  run.stop = stop;
}

void read_run(Reading& reading, Graph& graph) {
  const Json& root = reading.document->root;
  if (!root.contains("run")) return;
  const Place place{reading.document, "/run"};
  if (!expect_object(reading, root["run"], place, "run")) return;
  const Written written = read_object(reading, root["run"], place, "run", {nullptr, &reading.vars});
  Json params = Json::object();
  std::vector<std::string> given;
  read_params(reading, run_spec(), written, {"stop", "checkpoint"}, params, given);
  run_spec().apply(&graph.run, params);
  if (const Field* stop = written.find("stop")) read_stop(reading, *stop, graph.run);
  if (const Field* checkpoint = written.find("checkpoint"))
    read_group(reading, *checkpoint, checkpoint_spec(), &graph.run);
  graph.resolved["run"] = plain(written);
}

// ---- nodes --------------------------------------------------------------------------------------

// The node as it stands in the resolved graph: what was written, with flat names.
Json resolved_node(const GraphNode& node, const std::vector<GraphNode>& nodes,
                   const Written& written) {
  Json out = Json::object();
  out["type"] = node.spec->name;
  for (const GraphInput& in : node.inputs) {
    const GraphNode& from = nodes[static_cast<std::size_t>(in.from)];
    std::string ref = from.path;
    if (in.from_port > 0) ref += "." + from.spec->outs[static_cast<std::size_t>(in.from_port)].name;
    if (node.inputs.size() == 1 && in.port == 0)
      out["in"] = ref;
    else
      out["in"][node.spec->ins[static_cast<std::size_t>(in.port)].name] = ref;
  }
  for (const Field& field : written.fields) {
    if (field.key == "type" || field.key == "in" || field.key == "disabled") continue;
    out[field.key] = field.key == "after"      ? Json(node.after)
                     : field.key == "requires" ? Json(node.needs)
                                               : *field.value;
  }
  return out;
}

void read_nodes(Reading& reading, InnerOverrides& inner, Graph& graph) {
  const Expanded expanded = expand(reading, inner);
  std::vector<bool> disabled;
  for (const WrittenNode& written : expanded.nodes) {
    bool off = false;
    graph.nodes.push_back(read_node(reading, written, off));
    disabled.push_back(off);
  }
  connect_requires(reading, expanded, graph.nodes, disabled);
  connect(reading, expanded, graph.nodes, disabled);
  if (!reading.diagnostics.ok()) return;
  std::size_t next = 0;
  for (std::size_t i = 0; i < expanded.nodes.size(); ++i)
    if (!disabled[i]) {
      const GraphNode& node = graph.nodes[next++];
      graph.resolved["nodes"][node.path] = resolved_node(node, graph.nodes, expanded.nodes[i]);
    }
}

}  // namespace
}  // namespace reading

const Spec& run_spec() {
  static const Spec s =
      Spec("run", "Settings of the whole run.")
          .param("epochs", &RunSettings::epochs, "Training epochs.")
          .range(1, 1e9)
          .param("seed", &RunSettings::seed, "Of every random draw.")
          .param("max_bad", &RunSettings::max_bad, "Quarantined samples before the run fails.")
          .at_least(0)
          .param("step_threads", &RunSettings::step_threads,
                 "Threads of the training region; 0: as many as cores.")
          .range(0, 4096)
          .param("watchdog_s", &RunSettings::watchdog_s, "Seconds without progress; 0: for ever.")
          .at_least(0);
  return s;
}

int Graph::find(std::string_view path) const {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].path == path) return static_cast<int>(i);
  return -1;
}

std::optional<Graph> load_graph(DocumentPtr document, const Catalogue& catalogue,
                                const std::vector<Override>& overrides, Diagnostics& diagnostics) {
  if (!document) return std::nullopt;
  if (!document->root.is_object()) {
    diagnostics.error("SL0201", "a graph is an object, found " + describe_json(document->root),
                      {document, ""});
    return std::nullopt;
  }
  InnerOverrides inner;
  document = apply_overrides(std::move(document), overrides, inner, diagnostics);
  reading::Reading reading{document, catalogue, diagnostics, {}, {}};
  Graph graph;
  graph.document = document;
  graph.name = reading::text_of(document->root, "name",
                                std::filesystem::path(document->file).stem().string());
  graph.desc = reading::text_of(document->root, "desc", "");
  graph.resolved = {{"name", graph.name}};
  if (!graph.desc.empty()) graph.resolved["desc"] = graph.desc;
  reading::check_top(reading);
  reading::read_variables(reading);
  reading::name_models(reading);
  reading::read_run(reading, graph);
  reading::read_models(reading, graph);
  reading::read_nodes(reading, inner, graph);
  if (!diagnostics.ok()) return std::nullopt;
  return graph;
}

}  // namespace sluice
