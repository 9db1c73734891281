#include "engine/graph/graph.h"

#include <algorithm>
#include <filesystem>

#include "engine/graph/graph_reader.h"

namespace sluice {
namespace reading {

const Field* Written::find(std::string_view key) const {
  for (const Field& field : fields)
    if (field.key == key) return &field;
  return nullptr;
}
Field* Written::find(std::string_view key) {
  return const_cast<Field*>(std::as_const(*this).find(key));
}

const Origin* Field::origin(std::string_view pointer) const {
  for (const Origin& o : origins)
    if (pointer.starts_with(o.at) && (pointer.size() == o.at.size() || pointer[o.at.size()] == '/'))
      return &o;
  return nullptr;
}

Field Field::member(const std::string& name) const {
  const Place below = Place{nullptr, ""}.child(name);
  const Json& here = value->is_array() ? value->at(std::stoul(name)) : value->at(name);
  Field m{name, here, place, {}};
  if (!origin("")) m.place = place.child(name);
  for (const Origin& o : origins) {
    if (o.at.empty()) m.origins.push_back({"", o.place.child(name), o.path + "." + name});
    if (o.at.starts_with(below.pointer + "/") || o.at == below.pointer)
      m.origins.push_back({o.at.substr(below.pointer.size()), o.place, o.path});
  }
  return m;
}

std::vector<Field> Field::members() const {
  std::vector<Field> all;
  for (const auto& [name, element] : value->items()) all.push_back(member(name));
  return all;
}

Diagnostic& Reading::error_at(const Field& field, std::string code, std::string message,
                              std::string path, std::string hint,
                              const std::string& pointer) const {
  Diagnostic d{Severity::error,
               std::move(code),
               std::move(message),
               field.place,
               std::move(path),
               std::move(hint),
               {}};
  const Origin* origin = field.origin(pointer);
  d.place.pointer += origin ? origin->at : pointer;
  if (origin) {
    Place from = origin->place;
    from.pointer += pointer.substr(origin->at.size());
    if (from.mark().line == 0) from = origin->place;
    d.notes.push_back("the value comes from " + origin->path + " at " + from.str());
    d.indirect = true;
  }
  return diagnostics.add(std::move(d));
}

// ---- objects with known keys --------------------------------------------------------------------

Members::Members(const Reading& reading, const Json& object, const Place& place,
                 const std::string& path, const std::vector<std::string>& known,
                 const std::string& where)
    : object_(&object), place_(place) {
  for (const auto& [key, value] : object.items()) {
    if (is_ignored(key) || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string meant = nearest(key, known);
    reading.error("SL0202", "unknown key \"" + key + "\"" + where, place.child(key).key(),
                  path.empty() ? key : path + "." + key,
                  meant.empty() ? "known are " + listed(known) : "did you mean \"" + meant + "\"?");
    if (!meant.empty() && !object.contains(meant)) misspelt_.emplace(meant, key);
  }
}

const Json* Members::find(std::string_view key) const {
  if (!object_) return nullptr;
  const auto other = misspelt_.find(key);
  const auto at = object_->find(other == misspelt_.end() ? std::string(key) : other->second);
  return at == object_->end() ? nullptr : &*at;
}

Place Members::place(std::string_view key) const {
  const auto other = misspelt_.find(key);
  return place_.child(other == misspelt_.end() ? key : std::string_view(other->second));
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

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "\"" : ", \"") + w + "\"";
  return out;
}

std::string counted(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

bool expect_object(const Reading& reading, const Json& value, const Place& place,
                   const std::string& path, const std::string& named) {
  if (value.is_object()) return true;
  const bool list = value.is_array() && !named.empty();
  reading.error(list ? "SL0216" : "SL0201", "expected an object, found " + describe_json(value),
                place, path, named.empty() ? "" : "write { " + named + ", ... }");
  return false;
}

namespace {

const std::vector<std::string> top_keys{"$schema", "name",   "desc",  "vars",
                                        "run",     "models", "parts", "nodes"};

void check_top(Reading& reading) {
  const Place place{reading.document, ""};
  reading.top = Members(reading, reading.document->root, place, "", top_keys, "");
  for (const char* key : {"$schema", "name", "desc"})
    if (const Json* value = reading.top.find(key); value && !value->is_string())
      reading.error("SL0201", "expected a string, found " + describe_json(*value),
                    reading.top.place(key), key);
}

std::string text_of(const Reading& reading, const char* key, std::string otherwise) {
  const Json* value = reading.top.find(key);
  return value && value->is_string() ? value->get<std::string>() : otherwise;
}

// ---- models -------------------------------------------------------------------------------------

// Their names alone, for the nodes that name one: a faulty network is a network all the same.
void name_models(Reading& reading) {
  const Json* models = reading.top.find("models");
  reading.models_partial = models && !models->is_object();
  if (!models || reading.models_partial) return;
  for (const auto& [name, value] : models->items()) reading.model_names.insert(name);
}

struct ModelSettings {
  std::string desc, weights_key, strip_prefix;
  std::vector<std::string> weights;
  bool partial = false;
  static const Spec& spec() {
    static const Spec s = Spec("network", "Settings of every network.")
                              .param("desc", &ModelSettings::desc, "What it is for.")
                              .param("weights", &ModelSettings::weights,
                                     "What to begin with: a run folder, a checkpoint folder, a "
                                     ".safetensors file or one of torch.save(). Of several, as of "
                                     "a cross-validation's folds: the mean of their outputs, to "
                                     "predict with.")
                              .param("weights_key", &ModelSettings::weights_key,
                                     "Which dictionary of such a file: \"state_dict\", or "
                                     "\"network_weights\" of nnU-Net's; \"\": the only one.")
                              .param("strip_prefix", &ModelSettings::strip_prefix,
                                     "What the names in the file begin with and the network's do "
                                     "not: \"module.\".")
                              .param("partial", &ModelSettings::partial,
                                     "Weights that the file lacks, or has in another shape, stay "
                                     "as they are drawn. Where no name of the file is the "
                                     "network's, it begins the part whose names end like them: a "
                                     "vit's the \"vit.\" of a unetr.");
    return s;
  }
};

GraphModel read_model(Reading& reading, const std::string& name, Written& written) {
  GraphModel model;
  model.name = name;
  model.place = written.place;
  model.spec = find_spec(reading, written, true);
  std::vector<std::string> given, reserved{"type"};
  for (const ParamSpec& p : ModelSettings::spec().params) reserved.push_back(p.name);
  if (model.spec) read_params(reading, *model.spec, written, reserved, model.params, given);
  ModelSettings settings;
  for (const ParamSpec& p : ModelSettings::spec().params)
    if (const Field* field = written.find(p.name))
      if (accepts(reading, *field, p, written.path + "." + p.name)) p.set(&settings, *field->value);
  model.weights = {"", {}, settings.weights_key, settings.strip_prefix, settings.partial};
  for (const std::string& file : settings.weights)
    (model.weights.file.empty() ? model.weights.file : model.weights.more.emplace_back()) = file;
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
  const Json* models = reading.top.find("models");
  const Place place = reading.top.place("models");
  if (!models || !expect_object(reading, *models, place, "models", "\"name\": {\"type\": ...}"))
    return;
  for (const auto& [name, value] : models->items()) {
    const Place here = place.child(name);
    const std::string path = "models." + name;
    if (!is_name(name, false))
      reading.error("SL0204", "\"" + name + "\" cannot be the name of a network", here.key(), path,
                    "use letters, digits, _ and -");
    if (!expect_object(reading, value, here, path)) continue;
    Written written = read_object(reading, value, here, path, reading.scope());
    graph.models.push_back(read_model(reading, name, written));
    graph.resolved["models"][name] = plain(written);
  }
}

// ---- run ----------------------------------------------------------------------------------------

// Reads the object under `key` of run against a Spec, into `target`. False where it is faulty.
bool read_group(const Reading& reading, const Field& field, const Spec& spec, void* target) {
  if (!field.value) return false;
  if (!field.value->is_object()) {
    reading.error_at(field, "SL0201", "expected an object, found " + describe_json(*field.value),
                     spec.name);
    return false;
  }
  const auto before = reading.diagnostics.errors();
  Written written{spec.name, field.place, field.members()};
  Json params = Json::object();
  std::vector<std::string> given;
  read_params(reading, spec, written, {}, params, given, "SL0218");
  if (reading.diagnostics.errors() != before) return false;
  spec.apply(target, params);
  return true;
}

void read_run(Reading& reading, Graph& graph) {
  const Json* run = reading.top.find("run");
  const Place place = reading.top.place("run");
  if (!run || !expect_object(reading, *run, place, "run")) return;
  Written written = read_object(reading, *run, place, "run", reading.scope());
  Json params = Json::object();
  std::vector<std::string> given;
  read_params(reading, run_spec(), written, {"stop", "checkpoint"}, params, given, "SL0218");
  run_spec().apply(&graph.run, params);
  if (const Field* field = written.find("stop")) {
    StopRule stop;
    stop.place = field->value && field->value->is_object() && !field->origin("")
                     ? field->place.child("metric")
                     : field->place;
    if (read_group(reading, *field, stop_spec(), &stop)) graph.run.stop = stop;
    if (graph.run.stop && !stop.at_least && !stop.at_most && !stop.patience)
      reading.diagnostics.error(
          "SL0233", "\"run.stop\" needs one of \"at_least\", \"at_most\" and \"patience\"",
          field->place.key(), "run.stop", "add one of them");
  }
  if (const Field* checkpoint = written.find("checkpoint"))
    if (read_group(reading, *checkpoint, checkpoint_spec(), &graph.run))
      graph.run.checkpoint_best_place = checkpoint->place.child("best");
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

// What nothing uses is most likely a mistake, or left over.
void unused(const Reading& reading, const Expanded& expanded, Graph& graph) {
  const auto remark = [&](const char* code, const std::string& message, const Place& place,
                          const std::string& path, const std::string& hint) {
    graph.remarks.push_back({Severity::warning, code, message, place, path, hint, {}});
  };
  for (const auto& [name, binding] : reading.vars)
    if (!binding.used)
      remark("SL0237", "nothing uses the variable \"" + name + "\"",
             reading.top.place("vars").child(name).key(), "vars." + name,
             "\"@" + name + "\" stands for its value");
  for (const auto& [name, place] : expanded.unused_parts)
    remark("SL0238", "nothing uses the part \"" + name + "\"", place, "parts." + name,
           "a node does by \"part\": \"" + name + "\"");
  for (const GraphModel& m : graph.models)
    if (!reading.used_models.count(m.name))
      remark("SL0239", "no node uses the network \"" + m.name + "\"", m.place.key(),
             "models." + m.name, "a node does by \"net\": \"" + m.name + "\"");
}

void read_nodes(Reading& reading, InnerOverrides& inner, Graph& graph) {
  Expanded expanded = expand(reading, inner);
  std::vector<bool> disabled;
  for (WrittenNode& written : expanded.nodes) {
    bool off = false;
    graph.nodes.push_back(read_node(reading, written, off));
    disabled.push_back(off);
  }
  connect_requires(reading, expanded, graph.nodes, disabled);
  connect(reading, expanded, graph.nodes, disabled);
  for (const GraphNode& node : graph.nodes) {
    if (!node.spec) continue;
    for (const std::string& key : node.spec->params_with_networks())
      if (node.params.contains(key) && node.params[key].is_string())
        reading.used_models.insert(node.params[key].get<std::string>());
  }
  unused(reading, expanded, graph);
  if (!reading.diagnostics.ok()) return;
  // Json::operator[] would search all nodes for every new one.
  graph.resolved["nodes"] = Json::object();
  auto& resolved = graph.resolved["nodes"].get_ref<Json::object_t&>();
  std::size_t next = 0;
  for (std::size_t i = 0; i < expanded.nodes.size(); ++i)
    if (!disabled[i] && !expanded.nodes[i].rehearsed) {
      const GraphNode& node = graph.nodes[next++];
      resolved.emplace_back(node.path, resolved_node(node, graph.nodes, expanded.nodes[i]));
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
          .param("max_bad", &RunSettings::max_bad,
                 "Quarantined samples before the run fails, each counted once.")
          .at_least(0)
          .param("threads", &RunSettings::threads, "Data threads; 0: as many as cores.")
          .range(0, 4096)
          .param("io_threads", &RunSettings::io_threads,
                 "Threads that read and write files; 0: as many as data threads, or as nodes ask "
                 "for; at least 2.")
          .range(0, 4096)
          .param("step_threads", &RunSettings::step_threads,
                 "Threads of the training region; 0: as many as cores.")
          .range(0, 4096)
          .param("shards", &RunSettings::shards,
                 "Equal parts in which each training batch is computed, each by one process; their "
                 "gradients are added in an order of their own, so the result is the same with any "
                 "number of processes up to this one. null: as many as processes.")
          .range(1, 65536)
          .param("transfer", &RunSettings::transfer,
                 "What gradients of shards are added and sent as. bfloat16: half the bytes; every "
                 "shard's gradient and every sum is rounded, so the result is another one, and "
                 "still the same with any number of processes.")
          .choices({"float32", "bfloat16"})
          .param(
              "bucket_mb", &RunSettings::bucket_mb,
              "MB of gradients that go to other processes together, while the backward pass goes "
              "on with the layers in front of them. 0: all at its end. The result is the same.")
          .range(0, 1e6)
          .param("shard_optimizer", &RunSettings::shard_optimizer,
                 "Each process keeps the optimizer's moments of its part of the weights alone, "
                 "updates that part and sends it to the others (ZeRO-1): less memory, on the host. "
                 "The result is the same.")
          .param("join_timeout_s", &RunSettings::join_timeout_s,
                 "Seconds that the processes of a run wait for each other at its beginning.")
          .above(0)
          .param("peer_timeout_s", &RunSettings::peer_timeout_s,
                 "Seconds of silence after which another process of the run counts as hung.")
          .above(0)
          .param("watchdog_s", &RunSettings::watchdog_s, "Seconds without progress; 0: for ever.")
          .at_least(0)
          .param("fuse", &RunSettings::fuse,
                 "Transforms one behind the other are done together; the result is the same.")
          .param("lazy", &RunSettings::lazy,
                 "MONAI's lazy resampling: resamplings of such a run become one; sharper, so not "
                 "the same.")
          .param("cuda_graphs", &RunSettings::cuda_graphs,
                 "On a GPU the training step is recorded once for a shape of batches and repeated "
                 "as a whole (CUDA graphs); the result is the same.")
          .param(
              "tf32", &RunSettings::tf32,
              "A GPU's convolutions take float32 with 10 bits of fraction (cuDNN's, as in PyTorch; "
              "products of matrices never do).")
          .param(
              "cudnn_benchmark", &RunSettings::cudnn_benchmark,
              "cuDNN tries its algorithms out for each shape and takes the quickest: another one "
              "in another run, so other bits.")
          .param("deterministic", &RunSettings::deterministic,
                 "On a GPU only algorithms that give the same bits each time.")
          .param("devices", &RunSettings::devices,
                 "GPUs that share each batch of a network, as PyTorch's DataParallel; 0: all. On a "
                 "machine with fewer, those that are there. Batch norm normalises each part alone.")
          .at_least(0)
          .param(
              "device_budget", &RunSettings::device_budget,
              "Bytes of a GPU's memory for samples: those in flight, and in caches on the device. "
              "Caches without a budget share what the others leave. null: half of what is free "
              "when the run begins; the rest is the networks'.")
          .at_least(0);
  return s;
}

const Spec& stop_spec() {
  static const Spec s =
      Spec("run.stop", "When a run is good enough, or gets no better.")
          .param("metric", &StopRule::metric, "\"node.metric\".")
          .required()
          .param("at_least", &StopRule::at_least, "Stop once the metric is this high.")
          .param("at_most", &StopRule::at_most, "Stop once the metric is this low.")
          .param("patience", &StopRule::patience,
                 "Stop once so many values in a row were no better than the best.")
          .at_least(1)
          .param("mode", &StopRule::mode,
                 "patience: whether more of it is better, or less. null: less of losses, errors "
                 "and distances, by the metric's name or its node's type; else more.")
          .choices({"max", "min"})
          .param("min_delta", &StopRule::min_delta, "patience: better by less does not count.")
          .at_least(0)
          .param("cumulative_delta", &StopRule::cumulative_delta,
                 "patience: min_delta counts from the last value that was better by so much, not "
                 "from the best one.")
          .exclusive("at_least", "at_most");
  return s;
}

const Spec& checkpoint_spec() {
  static const Spec s =
      Spec("run.checkpoint", "When the run is saved.")
          .param("every_epochs", &RunSettings::checkpoint_every, "0: none is kept.")
          .at_least(0)
          .param("every_s", &RunSettings::checkpoint_every_s,
                 "Seconds after which checkpoints/last is written anew, behind the step under way; "
                 "null: 600. 0: never, so at the end and at a signal only.")
          .at_least(0)
          .param("keep", &RunSettings::checkpoint_keep, "How many of every_epochs stay.")
          .at_least(1)
          .param("best", &RunSettings::checkpoint_best,
                 "\"node.metric\": its best epoch so far is kept in checkpoints/best.")
          .param("mode", &RunSettings::checkpoint_mode,
                 "best: whether more is better, or less. null: as of run.stop.")
          .choices({"max", "min"});
  return s;
}

const Spec& model_settings_spec() { return reading::ModelSettings::spec(); }

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
  reading::Reading reading{document, catalogue, diagnostics};
  reading.has_refused = !diagnostics.ok();
  reading::check_top(reading);
  Graph graph;
  graph.document = document;
  graph.name =
      reading::text_of(reading, "name", std::filesystem::path(document->file).stem().string());
  graph.desc = reading::text_of(reading, "desc", "");
  graph.resolved = {{"name", graph.name}};
  if (!graph.desc.empty()) graph.resolved["desc"] = graph.desc;
  reading::read_variables(reading);
  reading::name_models(reading);
  reading::read_run(reading, graph);
  reading::read_models(reading, graph);
  reading::read_nodes(reading, inner, graph);
  if (!diagnostics.ok()) return std::nullopt;
  return graph;
}

}  // namespace sluice
