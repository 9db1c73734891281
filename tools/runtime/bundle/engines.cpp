// Networks, weights, inference, training, metrics.
#include <algorithm>
#include <regex>
#include <utility>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

std::string class_name(const std::string& target);

namespace {

ItemPtr first_of(const ItemPtr& item, const std::string& ending) {
  if (item->target().ends_with(ending)) return item;
  for (const auto& element : item->elements)
    if (auto found = first_of(element, ending)) return found;
  for (const auto& [key, member] : item->members)
    if (auto found = first_of(member, ending)) return found;
  return nullptr;
}

// The ready graph to begin with where an engine is not read.
std::string instead_of(const std::string& engine) {
  for (const auto& [begins, graph] : {std::pair{"Detection", "detect"}, {"Vista3d", "vista3d"}})
    if (engine.starts_with(begins))
      return std::string("; begin with the graph that `sluice graphs ") + graph + "` copies";
  return "";
}

std::string identifier(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  return name;
}

}  // namespace

ItemPtr Translator::engine(const std::vector<std::string>& names, const std::string& ending) {
  for (const auto& name : names)
    if (auto item = config_.find(name); item && item->target().ends_with(ending)) return item;
  return first_of(config_.root(), ending);
}

bool Translator::is_classifier() const {
  if (graph.models.empty()) return false;
  const std::string type = graph.models.front().body.value("type", "");
  for (const char* begin : {"densenet", "resnet", "se_res", "senet", "efficientnet", "lenet", "vit",
                            "torchvision_fc_model", "classifier", "regressor", "point_regressor",
                            "discriminator", "critic", "global_net"})
    if (type.starts_with(begin)) return true;
  return false;
}

bool Translator::registers() const {
  return !graph.models.empty() && graph.models.front().body.value("type", "") == "reg_resnet";
}

void Translator::network(const Value& value, const std::string& name) {
  if (!value.is(Value::Kind::object)) {
    report.add(*config_.root(), "network", Fate::missing, value.describe(), true);
    return;
  }
  const Item& item = *value.item;
  for (const Entry& model : graph.models)
    if (model.comment.starts_with(comment_of(item))) return;  // its weights may stand behind
  const std::string type = type_of(item.target());
  const Spec* spec = catalogue_.find(type);
  if (!spec || !spec->is_network) {
    missing(item, "there is no such network; `sluice inspect` lists those that there are", true);
    return;
  }
  const std::string own = last_name(item.target());
  if (item.target().starts_with("scripts.") && own != "UNesT" &&
      !known_script(config_.folder(), own)) {
    missing(item,
            "a script of the bundle's own, whose text is not the one that \"" + type +
                "\" was made after: the network may be another",
            true);
    return;
  }
  Json body = {{"type", type}};
  fill(item, *spec, body, true);
  if (const ParamSpec* dims = spec->find_param("spatial_dims")) {
    const Json n = body.value("spatial_dims", dims->fallback);
    if (n.is_number_integer()) dims_ = n.get<int>();
  }
  // torchvision's own weights were trained on other numbers than images come with.
  if (body.value("model_name", "") == "inception_v3" && values.is_true(item, "pretrained"))
    body["transform_input"] = true;
  if (value.name == "normal_init") {
    if (spec->find_param("init"))
      body["init"] = "normal";
    else
      missing(item, "normal_init of this network", true);
  }
  if (type == "dints") architecture(item, *spec, body);
  if (type == "retina_net") feature_pyramid(item, *spec, body);
  if (type == "hover_net") {
    dims_ = 2;
    outputs_ = {"nucleus_prediction", "horizontal_vertical"};
    if (body.value("out_classes", 0) > 0) outputs_.push_back("type_prediction");
    if (values.is_true(item, "freeze_encoder"))
      step_["groups"] = {{{"match", "^res_blocks\\.(d0\\.layers|d[1-3])\\."}, {"frozen", true}}};
  }
  if (type == "point_regressor") dims_ = 2;
  report.add(item, own, Fate::translated, type);
  graph.models.push_back({name, std::move(body), comment_of(item)});
}

// DiNTS takes its paths and operations from a TopologyInstance: [arch_code_a, arch_code_c].
void Translator::architecture(const Item& item, const Spec& spec, Json& body) {
  const Value space = values.of(item, "dints_space");
  if (!space.is(Value::Kind::object) || last_name(space.item->target()) != "TopologyInstance") {
    missing(item, "its dints_space is " + space.describe() + ": TopologyInstance is known", true);
    return;
  }
  fill(*space.item, spec, body, true);
  report.add(*space.item, "TopologyInstance", Fate::translated, "parameters of dints");
  if (!values.given(*space.item, "arch_code")) return;
  const Value codes = values.of(*space.item, "arch_code");
  for (std::size_t i = 0; i < codes.items.size() && i < 2; ++i) {
    if (const auto code = codes.items[i].json())
      body[i == 0 ? "arch_code_a" : "arch_code_c"] = *code;
    else
      report.add(*space.item->find("arch_code"), "TopologyInstance.arch_code", Fate::missing,
                 "there are no such numbers: " + codes.items[i].describe(), true);
  }
}

void Translator::weights(const Item& loader) {
  const Value path = values.of(loader, "load_path");
  if (!path.is_text()) {
    missing(loader, "its load_path is " + path.describe(), true);
    return;
  }
  if (graph.models.empty()) return;
  Json& body = graph.models.front().body;
  body["weights"] = values.path(path.text());
  if (!values.is_true(loader, "strict", true)) body["partial"] = true;
  rest(loader, "left out", false);
  graph.models.front().comment += "; weights: " + comment_of(loader);
  report.add(loader, last_name(loader.target()), Fate::translated, "models.net.weights");
}

void Translator::precision(const Item& engine) {
  if (values.is_true(engine, "amp"))
    report.add(*engine.find("amp"), last_name(engine.target()) + ".amp", Fate::replaced,
               "float32 here; on a GPU say --set models.net.precision=float16 for MONAI's");
}

// Without decollate MONAI's transforms after the network see a batch as if it were a sample: all
// the same to those that go voxel by voxel.
void Translator::look_at_batches(const Item& engine, const std::vector<ItemPtr>& post) {
  if (values.is_true(engine, "decollate", true)) return;
  for (const auto& item : post) {
    const std::string name = class_name(item->target());
    if (std::any_of(dropped_rows().begin(), dropped_rows().end(),
                    [&](const DroppedRow& row) { return row.name == name; }))
      continue;
    if (name == "Activations" && !values.given(*item, "softmax") && !values.given(*item, "other"))
      continue;
    report.add(*engine.find("decollate"), last_name(engine.target()) + ".decollate", Fate::missing,
               last_name(item->target()) + " would see a batch as one sample there", true);
    return;
  }
}

// initialize, run, finalize: what their calls mean.
void Translator::look_at_calls() {
  for (const char* key : {"initialize", "run", "evaluating", "eval", "training", "finalize"}) {
    const ItemPtr list = config_.find(key);
    if (!list) continue;
    for (const auto& item :
         list->kind == Item::Kind::list ? list->elements : std::vector<ItemPtr>{list}) {
      try {
        const Value v = values.of(item);
        if (v.name == "seed" && v.plain.is_number_integer()) graph.run["seed"] = v.plain;
        if (v.name == "cudnn_benchmark") graph.run["cudnn_benchmark"] = v.plain;
        if (v.name == "cudnn_deterministic") graph.run["deterministic"] = v.plain;
        if (v.name == "writer") writers_["." + v.items[0].text()] = last_name(v.items[1].name);
        if (v.name == "load" && class_name(v.item->target()) == "CheckpointLoader")
          weights(*v.item);
        if (v.name == "weights" || v.name == "append" || v.name == "normal_init" ||
            v.name == "copy_model_state")
          calls_.emplace_back(item, v);
      } catch (const Refused& refused) {
        report.add(*item, key, Fate::missing, refused.what());
      }
    }
  }
}

void Translator::finish() {
  // What is loaded first: weights that are copied count where nothing is.
  std::stable_partition(calls_.begin(), calls_.end(),
                        [](const auto& call) { return call.second.name == "weights"; });
  for (const auto& [line, call] : calls_) {
    const std::string comment = comment_of(*call.item);
    const auto model = std::find_if(graph.models.begin(), graph.models.end(),
                                    [&](const Entry& e) { return e.comment.starts_with(comment); });
    if (model == graph.models.end()) continue;  // of a network that nothing uses
    Json& body = model->body;
    if (call.name == "weights" && !body.contains("weights"))
      loaded(call, body);
    else if (call.name == "normal_init" && body.value("init", "") != "normal")
      report.add(*line, "normal_init", Fate::missing, "known where the network is named", true);
    else if (call.name == "copy_model_state" && !body.contains("weights"))
      report.add(*line, call.name, Fate::missing, "weights that it takes over from another network",
                 true);
    else if (call.name == "append" && model->name == "net")  // else a generator's: gan() has said
      report.add(*line, "add_module", Fate::missing, "a layer that is added to this network", true);
  }
}

void Translator::handlers(const Value& list, bool training) {
  for (const Value& one : list.items) {
    if (!one.is(Value::Kind::object)) continue;
    const Item& item = *one.item;
    const std::string name = last_name(item.target());
    if (name == "CheckpointLoader") {
      weights(item);
    } else if (name == "ProbMapProducer" && !training) {
      map_ = one.item;
    } else if (!training && (name == "ClassificationSaver" ||
                             (name == "DetectionSaver" && known_script(config_.folder(), name)))) {
      saver_ = one.item;
    } else if (name == "LrScheduleHandler") {
      schedule(item);
    } else if (name == "ValidationHandler") {
      const Json every = values.of(item, "interval").json().value_or(Json(1));
      validation_ = {{"after", "step"}};
      if (every.is_number_integer() && every != 1) validation_["every_epochs"] = every;
      if (!values.is_true(item, "epoch_level", true))
        missing(item, "validation is after epochs, not after steps", true);
      validator_ = values.of(item, "validator").item;
      rest(item, "left out", false);
      report.add(item, name, Fate::translated, "after, every_epochs of the validation's source");
    } else if (name == "CheckpointSaver") {
      save_checkpoints(one.item);
    } else {
      std::string why;
      for (const DroppedRow& row : dropped_rows())
        if (row.name == name) why = row.why;
      if (why.empty())
        missing(item, training ? "left out" : "left out: nothing is written by it", false);
      else
        report.add(item, name, Fate::dropped, why);
    }
  }
}

void Translator::save_checkpoints(const ItemPtr& saver) {
  Json& checkpoint = graph.run["checkpoint"];
  if (checkpoint.is_null()) checkpoint = Json::object();
  if (values.is_true(*saver, "save_key_metric")) best_saver_ = saver;
  const Json interval = values.of(*saver, "save_interval").plain,
             kept = values.of(*saver, "n_saved").plain;
  const bool by_epochs = values.is_true(*saver, "epoch_level", true);
  if (interval.is_number_integer() && interval != 0) {
    if (by_epochs)
      checkpoint["every_epochs"] = interval;
    else
      report.add(*saver->find("epoch_level"), "CheckpointSaver.epoch_level", Fate::missing,
                 "checkpoints are saved after epochs, not after steps", false);
    if (kept.is_number_integer()) checkpoint["keep"] = kept;
  }
  for (const char* of_best : {"key_metric_name", "key_metric_negative_sign"})
    values.of(*saver, of_best);  // keep_best()
  rest(*saver, "left out", false);
  report.add(*saver, "CheckpointSaver", Fate::replaced,
             "run.checkpoint; its files are the run's checkpoints, which MONAI loads by name");
}

// Whether the evaluator takes the smaller key metric for the better one.
bool Translator::smaller_is_better(const Item& evaluator) {
  static const std::pair<const char*, bool> known[]{
      {"lambda x, y: x < y", true},  {"lambda x, y: x <= y", true},
      {"lambda x, y: y > x", true},  {"lambda x, y: y < 0 or x < y", true},
      {"lambda x, y: x > y", false}, {"lambda x, y: x >= y", false},
      {"lambda x, y: y < x", false}};
  if (!values.given(evaluator, "metric_cmp_fn")) return false;
  const ItemPtr given = evaluator.find("metric_cmp_fn");
  try {
    const Value compare = values.of(evaluator, "metric_cmp_fn");
    if (compare.name.ends_with("default_metric_cmp_fn")) return false;
    if (compare.name == "operator.lt" || compare.name == "operator.le") return true;
    if (compare.name == "operator.gt" || compare.name == "operator.ge") return false;
    for (const auto& [shape, smaller] : known)
      if (compare.is(Value::Kind::lambda) &&
          text_of(*compare.expr) == text_of(*parse_expression(shape, "", given->at)))
        return smaller;
  } catch (const Refused&) {  // code of its own
  }
  report.add(*given, last_name(evaluator.target()) + ".metric_cmp_fn", Fate::missing,
             "which epoch is the best follows key_metric_negative_sign alone; known are < and >",
             false);
  return false;
}

// After an evaluator's metrics: the best epoch that its CheckpointSaver keeps. MONAI goes by the
// sign there, and by metric_cmp_fn where it tells of the best one: less is better where either says
// so.
void Translator::keep_best(const Item& evaluator) {
  const ItemPtr saver = std::exchange(best_saver_, nullptr);
  const bool smaller = smaller_is_better(evaluator);
  if (!saver) return;
  const bool negative = values.is_true(*saver, "key_metric_negative_sign");
  Value wanted = values.of(*saver, "key_metric_name");
  if (const Value first = values.of(evaluator, "key_val_metric");
      !wanted.is_text() && !first.entries.empty())
    wanted.plain = first.entries.front().first;
  const auto metric = metrics_.find(wanted.text());
  if (metric == metrics_.end()) {
    report.add(*saver->find("save_key_metric"), "CheckpointSaver.save_key_metric", Fate::missing,
               "the key metric is not measured here: no epoch is the best", false);
    return;
  }
  Json& checkpoint = graph.run["checkpoint"];
  checkpoint["best"] = metric->second;
  checkpoint["mode"] = negative || smaller ? "min" : "max";
  if (smaller && !negative)
    report.add(*evaluator.find("metric_cmp_fn"), last_name(evaluator.target()) + ".metric_cmp_fn",
               Fate::replaced,
               "run.checkpoint.mode \"min\"; without key_metric_negative_sign MONAI's saver keeps "
               "the epoch of the greatest metric");
}

std::string Translator::infer(const Item& evaluator, const std::string& in) {
  const Value inferer = values.of(evaluator, "inferer");
  const std::string name =
      inferer.is(Value::Kind::object) ? last_name(inferer.item->target()) : "SimpleInferer";
  if (name == "SimpleInferer") {
    const Item& item = inferer.is(Value::Kind::object) ? *inferer.item : evaluator;
    if (inferer.is(Value::Kind::object))
      report.add(item, name, Fate::translated,
                 whole_images() ? "batch and model" : "one window: the whole image");
    if (whole_images()) {
      const std::string batch = add_node(
          node_name("ebatch"), {{"type", "batch"}, {"in", in}, {"size", slides_ ? batch_size_ : 1}},
          comment_of(item));
      return add_node("infer", forward_node(interact(evaluator, batch, false)), comment_of(item));
    }
    return add_node("infer",
                    {{"type", "sliding_window"},
                     {"in", in},
                     {"net", "net"},
                     {"roi_size", std::vector<int>(static_cast<std::size_t>(dims_), 0)}},
                    comment_of(item) + ": the window is the whole image");
  }
  Json body = {{"in", in}, {"net", "net"}};
  if (name == "LandmarkInferer" && known_script(config_.folder(), name)) {
    const Json stack = values.of(*inferer.item, "stack_dim").json().value_or(Json(-1));
    if (!stack.is_number_integer() || stack == 0)
      missing(*inferer.item->find("stack_dim"), "slices stand in a sample, not beside it", true);
    else
      body["stack_dim"] = stack < 0 ? stack.get<int>() : stack.get<int>() - 1;
    return emit(*inferer.item, "landmark_inferer", std::move(body), true, "infer");
  }
  if (name == "SliceInferer") {
    const Json axis = values.of(*inferer.item, "spatial_dim").json().value_or(Json(0));
    Json roi = values.of(*inferer.item, "roi_size").json().value_or(Json());
    if (!roi.is_array()) roi = {roi, roi};
    const std::int64_t a = axis.is_number_integer() ? axis.get<std::int64_t>() : 0;
    if (roi.size() == 2 && a >= 0 && a < 3) roi.insert(roi.begin() + a, 1);
    body["roi_size"] = roi;
    body["slice_axis"] = a;
    dims_ = 3;  // what comes out
  }
  if (!outputs_.empty()) body["output_key"] = outputs_;
  // One number says nothing about the axes.
  if (const auto roi = values.of(*inferer.item, "roi_size").json(); roi && roi->is_number())
    body["roi_size"] = std::vector<Json>(static_cast<std::size_t>(dims_), *roi);
  if (const ItemPtr steps = inferer.item->find("buffer_steps");
      steps && values.of(steps).json() != Json())
    report.add(*steps, name + ".buffer_steps", Fate::dropped,
               "it saves memory; the windows and their weights are the same");
  if (type_of(inferer.item->target()) == "sliding_window")
    return emit(*inferer.item, "sliding_window", std::move(body), true, "infer");
  missing(*inferer.item, "left out: the network would see the whole image", true);
  return in;
}

// Networks that are shown whole images, in batches of one.
bool Translator::whole_images() const {
  return is_classifier() || registers() || !outputs_.empty() || input_ != "image" ||
         interaction_.is(Value::Kind::object);
}

Json Translator::forward_node(const std::string& in) const {
  Json body = {{"type", "model"}, {"in", in}, {"net", "net"}};
  if (input_ != "image") body["keys"] = {input_};
  if (!outputs_.empty()) body["output_keys"] = outputs_;
  return body;
}

// What an engine's prepare_batch says: the fields of HoVerNet's labels, or nothing that is known.
Value Translator::prepared_batch(const Item& engine) {
  if (!values.given(engine, "prepare_batch")) return {};
  const ItemPtr given = engine.find("prepare_batch");
  const std::string name = last_name(engine.target()) + ".prepare_batch";
  try {
    Value batch = values.of(engine, "prepare_batch");
    if (!target_.empty()) return {};  // denoise() has read it
    // A sample is the network's input itself.
    for (const char* bare : {"lambda b, *_, **__: (b.to(@device), None, (), {})",
                             "lambda batch, dev, nb: (batch.to(dev), ())"})
      if (batch.is(Value::Kind::lambda) &&
          text_of(*batch.expr) == text_of(*parse_expression(bare, "", given->at))) {
        report.add(*given, name, Fate::translated, "the network's input is the sample's one field");
        return {};
      }
    if (batch.is(Value::Kind::opaque) && batch.name == "PrepareBatchHoVerNet" &&
        !outputs_.empty()) {
      report.add(*given, name, Fate::translated, "the loss reads its fields by their names");
      return batch;
    }
  } catch (const Refused&) {  // code of its own
  }
  report.add(
      *given, name, Fate::missing,
      "code of its own: here a network's inputs are the fields that the node \"model\" names in "
      "keys",
      true);
  return {};
}

// An iteration of the engine's own: DeepEdit's is known.
void Translator::look_at_iteration(const Item& engine) {
  interaction_ = values.of(engine, "iteration_update");
  if (values.given(engine, "iteration_update") && !interaction_.is(Value::Kind::object))
    report.add(*engine.find("iteration_update"), last_name(engine.target()) + ".iteration_update",
               Fate::missing, "code of its own decides the result there", true);
}

// DeepEdit's Interaction: once a batch, or max_interactions times.
std::string Translator::interact(const Item& engine, const std::string& in, bool training) {
  if (!interaction_.is(Value::Kind::object)) return in;
  const Item& item = *interaction_.item;
  if (last_name(item.target()) != "Interaction" || labels_.empty()) {
    missing(item, "deepedit's Interaction is known, on labels that a transform has numbered", true);
    return in;
  }
  Json body = {{"type", "interact"}, {"in", in}, {"net", "net"}, {"times", 1}};
  if (const auto enter = values.of(item, "deepgrow_probability").json(); enter && !enter->is_null())
    body["enter"] = *enter;
  if (values.given(item, "max_interactions"))
    body["times"] = values.of(item, "max_interactions").json().value_or(Json());
  if (values.given(item, "click_probability_key") &&
      values.of(item, "click_probability_key").text() != "probability")
    missing(*item.find("click_probability_key"),
            "the body finds its probability in \"probability\"", true);
  if (values.given(item, "train") && values.is_true(item, "train") != training)
    missing(*item.find("train"), "train is true in training and false in validation", true);
  body["probability"] = training ? "falling" : "always";
  body["body"] = inner_nodes(transforms_of(values.of(item, "transforms")));
  rest(item, "left out", true);
  report.add(item, "Interaction", Fate::translated, "interact");
  return add_node("clicks", std::move(body), comment_of(item) + " of " + comment_of(engine));
}

bool Translator::is_one_hot(const Item& transform) {
  return class_name(transform.target()) == "AsDiscrete" && values.given(transform, "to_onehot");
}

void Translator::metrics(const Value& dict, const std::string& in, const std::string& scores) {
  for (const auto& [key, value] : dict.entries) {
    if (!value.is(Value::Kind::object)) continue;
    const Item& item = *value.item;
    std::string type = type_of(item.target());
    if (is_classifier() && type == "confusion_matrix_metric") type = "confusion_matrix";
    if (is_classifier() && !one_hot_ && type == "element_accuracy") type = "accuracy";
    const Spec* spec = catalogue_.find(type);
    if (!spec || spec->family != "metric") {
      missing(
          item,
          last_name(item.target()) == "IgniteMetric"
              ? "not measured: in a graph a loss as a metric is its node with a cumulative_average"
              : "not measured",
          false);
      continue;
    }
    Json body = {{"in", scores.empty() ? in : scores}};
    try {
      const Value from = values.of(item, "output_transform");
      if (from.name.starts_with("scripts.") &&
          !known_script(config_.folder(), last_name(from.name))) {
        missing(item, "not measured: " + from.name + " is code of the bundle's own", false);
        continue;
      }
      Json keys = Json::array();
      for (const Value& field : from.items) keys.push_back(field.text());
      const auto of_class = [&](std::size_t i, const char* whole) {
        return keys[i].get<std::string>().starts_with(whole);
      };
      if (keys.size() == 2 && of_class(0, "pred_") && of_class(1, "label_") && splits_classes_) {
        report.add(item, last_name(item.target()), Fate::replaced,
                   "class_1, class_2, ... of the metric of all classes");
        continue;
      }
      if (keys.size() == 2 && keys[1] == "label" && !target_.empty()) keys[1] = target_;
      if (keys.size() == 2 && spec->find_param("keys") && keys != Json{"pred", "label"})
        body["keys"] = keys;
    } catch (const Refused& refused) {
      missing(item, refused.what(), false);
      continue;
    }
    if (type == "confusion_matrix" && !values.is_true(item, "compute_sample"))
      body["average"] = "micro";
    if (type == "pairwise_distance_metric") body["spatial_dims"] = 1;
    // What postprocessing made are masks, a channel a class.
    if (spec->find_param("argmax")) body["argmax"] = !scores.empty();
    const std::string name =
        emit(item, type, std::move(body), false,
             identifier(key.is_string() ? key.get<std::string>() : key.dump()));
    if (key.is_string() && !spec->metrics.empty())
      metrics_[key.get<std::string>()] = name + "." + spec->metrics.front();
  }
}

void Translator::evaluate(const Item& evaluator, const std::string& source_name, const Json& more) {
  if (last_name(evaluator.target()) == "DetectionEvaluator")
    return find_boxes(evaluator, source_name, more);
  precision(evaluator);
  target_.clear();
  look_at_iteration(evaluator);
  const bool measures =
      values.given(evaluator, "key_val_metric") || values.given(evaluator, "additional_metrics");
  const Loader data =
      loader(values.of(evaluator, "val_data_loader"), false, source_name,
             measures ? std::vector<std::string>{"label"} : std::vector<std::string>{}, more);
  if (data.last.empty()) return;
  const bool scored = is_classifier() || (measures && !outputs_.empty());
  const std::size_t known = graph.nodes.size();
  std::string last =
      denoise(evaluator,
              add_node(node_name("ebatch"),
                       {{"type", "batch"}, {"in", data.last}, {"size", data.batch_size}},
                       comment_of(evaluator)),
              "infer");
  prepared_batch(evaluator);
  if (last.empty()) {
    graph.nodes.resize(known);
    last = infer(evaluator, data.last);
  }
  const std::string scores = last;
  auto post = transforms_of(values.of(evaluator, "postprocessing"));
  // What takes the axis of a batch of one away leaves samples.
  if (!post.empty() && class_name(post[0]->target()) == "SqueezeDim" && data.batch_size == 1 &&
      !values.is_true(evaluator, "decollate", true) &&
      values.of(*post[0], "dim").json().value_or(Json(0)) == 0) {
    report.add(*post[0], last_name(post[0]->target()), Fate::dropped, "samples have no such axis");
    post.erase(post.begin());
  } else {
    look_at_batches(evaluator, post);
  }
  one_hot_ =
      std::any_of(post.begin(), post.end(), [this](const auto& item) { return is_one_hot(*item); });
  const bool writes = std::any_of(post.begin(), post.end(), [this](const ItemPtr& item) {
    return class_name(item->target()) == "SaveClassification" ||
           writers_.contains(values.of(*item, "output_ext").text());
  });
  if (map_ || saver_ || registers() || input_ != "image" || interaction_.is(Value::Kind::object)) {
    last = add_node("each", {{"type", "decollate"}, {"in", last}}, comment_of(evaluator));
    last = chain(post, last);
    for (const auto& item : {map_, saver_}) {
      if (!item) continue;
      Json body = {{"in", last}};
      if (values.given(*item, "output_dir"))
        body["output_dir"] = values.path(values.of(*item, "output_dir").text());
      emit(*item, item == map_ ? "probability_map" : "save_classification", std::move(body), true,
           item == map_ ? "map" : "save_classes");
    }
  } else if (is_classifier() && writes) {
    last = add_node("scores", {{"type", "squeeze_dim"}, {"in", last}, {"keys", "pred"}, {"dim", 0}},
                    "one image's scores, without the batch's axis");
    last = chain(post, last);
  } else if (scored) {
    // Metrics of whole images take scores; softmax and argmax in between change nothing of them.
    for (const auto& item : post) {
      const std::string name = class_name(item->target());
      if (name == "Activations" || name == "AsDiscrete" || name == "EnsureType" ||
          name == "ToTensor" || (name == "Lambda" && !outputs_.empty()))
        report.add(*item, last_name(item->target()), Fate::replaced,
                   "metrics of whole images take the scores");
      else
        last = chain({item}, last);
    }
  } else {
    last = chain(post, last);
  }
  metrics_.clear();
  for (const char* key : {"key_val_metric", "additional_metrics"})
    metrics(values.of(evaluator, key), last, scored ? scores : "");
  keep_best(evaluator);
  values.of(evaluator, "network");  // the trainer's
  if (counts_whole_batches(evaluator, data.batch_size))
    report.add(*evaluator.find("epoch_length"), last_name(evaluator.target()) + ".epoch_length",
               Fate::replaced, "every file once");
  rest(evaluator, "nothing here does what it says", true);
}

// Whether epoch_length says: as many batches of this size as a list of files fills.
bool Translator::counts_whole_batches(const Item& engine, std::int64_t size) {
  if (!values.given(engine, "epoch_length")) return false;
  try {
    const Value steps = values.of(engine.find("epoch_length"));
    if (!steps.is(Value::Kind::opaque) || steps.name != whole_batches || steps.plain != size)
      return false;
    values.of(engine, "epoch_length");  // it is read
    return true;
  } catch (const Refused&) {  // code of its own
    return false;
  }
}

void Translator::inference() {
  const ItemPtr evaluator = engine({"evaluator", "validate#evaluator"}, "Evaluator");
  if (!evaluator && sampling()) return;
  if (!evaluator) {
    report.add(*config_.root(), "evaluator", Fate::missing,
               "no SupervisedEvaluator is there; a script that reads this file is not executed",
               true);
    return;
  }
  const std::string kind = last_name(evaluator->target());
  if (kind == "Vista3dEvaluator" && known_script(config_.folder(), kind)) return ask(*evaluator);
  if (kind != "SupervisedEvaluator" &&
      !(kind == "DetectionEvaluator" && known_script(config_.folder(), kind))) {
    missing(*evaluator, "of evaluators there is SupervisedEvaluator" + instead_of(kind), true);
    return;
  }
  report.add(*evaluator, kind, Fate::translated, "the nodes of the graph");
  network(values.of(*evaluator, "network"));
  look_at_calls();
  handlers(values.of(*evaluator, "val_handlers"), false);
  graph.run.erase("checkpoint");
  best_saver_ = nullptr;
  evaluate(*evaluator, "cases", Json::object());
}

// Epochs times a data set's length by the size of a batch.
bool Translator::is_steps_of_run(const ItemPtr& given) {
  static const std::regex shape(R"(\$\(@[\w#]+ \* len\(@[\w#]+\.dataset\)\) / @[\w#]*batch_size)");
  if (!given || !given->is_text() || !std::regex_match(given->text(), shape)) return false;
  const std::string text = given->text();
  return values.of_id(text.substr(3, text.find(' ') - 3), given->at).json() ==
         graph.run.value("epochs", Json());
}

void Translator::schedule(const Item& handler) {
  report.add(handler, "LrScheduleHandler", Fate::translated, "lr_schedule of the optimizer");
  const Value scheduler = values.of(handler, "lr_scheduler");
  if (!scheduler.is(Value::Kind::object)) {
    missing(handler, "its lr_scheduler is " + scheduler.describe(), true);
    return;
  }
  const Item& item = *scheduler.item;
  const std::string name = last_name(item.target());
  const std::string target = item.target();
  if (target.starts_with("scripts.") && !known_script(config_.folder(), name)) {
    missing(item, "a script of the bundle's own: the learning rate stays as it is", true);
    return;
  }
  if (name == "GradualWarmupScheduler") return warm_up(handler, item);
  const auto rows = schedule_rows();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const ScheduleRow& r) { return r.name == name; });
  if (row == rows.end()) {
    missing(item, "the learning rate stays as it is", true);
    return;
  }
  step_["lr_schedule"] = row->schedule;
  if (!values.is_true(handler, "epoch_level", true)) step_["epoch_level"] = false;
  rest(handler, "left out", true);
  const Json defaults = Json::parse(row->defaults);
  std::istringstream words{std::string(row->params)};
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals),
                      here = equals == std::string::npos ? word : word.substr(equals + 1);
    if (name == "PolynomialLR" && key == "total_iters" && step_.contains("epoch_level") &&
        is_steps_of_run(item.find(key))) {
      report.add(*item.find(key), name + "." + key, Fate::replaced,
                 "the whole run, epoch by epoch: its steps are counted when the data are read");
      step_.erase("epoch_level");
      try {
        values.of(item, key);
      } catch (const Refused&) {  // nothing counts a data set's samples here
      }
      continue;
    }
    auto json = values.of(item, key).json();
    if (!values.given(item, key) || (json && json->is_null())) {
      if (defaults.contains(key)) step_[here] = defaults[key];
      continue;
    }
    if (key == "warmup_start_lr" && json) {  // here a share of lr
      const Value stepped = values.of(item, "optimizer");
      const Json lr = stepped.item ? values.of(*stepped.item, "lr").plain : Json();
      if (lr.is_number() && lr > 0 && json->is_number())
        json = json->get<double>() / lr.get<double>();
      else
        json.reset();
    }
    if (json)
      step_[here] = *json;
    else
      report.add(*item.find(key), name + "." + key, Fate::missing, "left out", true);
  }
  rest(item, "left out", true);
  report.add(item, name, Fate::translated, "lr_schedule " + std::string(row->schedule));
}

void Translator::optimizer(const Item& item, const std::string& in, const std::string& net) {
  const std::string type = type_of(item.target());
  const Spec* spec = catalogue_.find(type);
  if (!spec || spec->family != "optimizer") {
    missing(item, "there is no such optimizer", true);
    return;
  }
  const Value params = values.of(item, "params");
  if (!params.is(Value::Kind::weights))
    report.add(*item.find("params"), last_name(item.target()) + ".params", Fate::missing,
               "all parameters would be trained; groups of the optimizer choose by name", true);
  Json body = {{"in", in}, {"net", net}};
  body.update(step_);
  emit(item, type, std::move(body), true, "step");
}

void Translator::train() {
  const ItemPtr trainer = engine({"train#trainer", "trainer"}, "Trainer");
  if (trainer && trainer->target() != "" && last_name(trainer->target()) == "GanTrainer")
    return gan(*trainer);
  const std::string kind = trainer ? last_name(trainer->target()) : "";
  if (kind == "MAISIControlNetTrainer" && known_script(config_.folder(), kind) &&
      known_script(config_.folder(), "binarize_labels"))
    return lead(*trainer);
  const ScriptRow* script = trainer ? known_script(config_.folder(), kind) : nullptr;
  if (kind == "VaeGanTrainer" && script)
    return vae_gan(*trainer, Json::parse(script->params)["first"] == "judge");
  if (kind == "DetectionTrainer" && script) return train_detector(*trainer);
  const bool latent = kind == "LDMTrainer" && script;
  if (kind != "SupervisedTrainer" && !latent) {
    if (trainer)
      missing(*trainer, "of trainers there are SupervisedTrainer and GanTrainer" + instead_of(kind),
              true);
    else
      report.add(*config_.root(), "trainer", Fate::missing,
                 "no SupervisedTrainer is there; a script that reads this file, as a search of "
                 "architectures does, is not executed: train.yaml or .json trains what it found",
                 true);
    return;
  }
  report.add(
      *trainer, kind, Fate::translated,
      latent ? "the nodes of the graph; the script's text is known" : "the nodes of the graph");
  precision(*trainer);
  network(values.of(*trainer, "network"));
  if (const auto epochs = values.of(*trainer, "max_epochs").json()) graph.run["epochs"] = *epochs;
  look_at_calls();
  handlers(values.of(*trainer, "train_handlers"), true);

  const Loader data =
      loader(values.of(*trainer, "train_data_loader"), true, "train", {"label"}, Json::object());
  if (data.last.empty()) return;
  Json batch = {{"type", "batch"}, {"in", data.last}, {"size", data.batch_size * patches_}};
  if (counts_whole_batches(*trainer, data.batch_size)) {
    batch["drop_last"] = true;
    report.add(*trainer->find("epoch_length"), kind + ".epoch_length", Fate::replaced,
               "an epoch is every file once; what fills no batch is left out");
  }
  if (data.drop_last) batch["drop_last"] = true;
  std::string batched =
      add_node("batch", std::move(batch),
               "batch_size " + std::to_string(data.batch_size) +
                   (patches_ > 1 ? ", of " + std::to_string(patches_) + " patches each" : ""));
  if (data.repeats > 1)
    batched =
        add_node("again", {{"type", "repeat_sample"}, {"in", batched}, {"times", data.repeats}},
                 "each batch is trained on " + std::to_string(data.repeats) + " times");
  std::string forward = denoise(*trainer, batched, "forward");
  const Value inferer = values.of(*trainer, "inferer");
  if (inferer.is(Value::Kind::object) && forward.empty()) {
    if (last_name(inferer.item->target()) == "SimpleInferer")
      report.add(*inferer.item, "SimpleInferer", Fate::translated, "model");
    else
      missing(*inferer.item, "training shows the network whole batches", true);
  }
  look_at_iteration(*trainer);
  if (forward.empty())
    forward =
        add_node("forward", forward_node(interact(*trainer, batched, true)), comment_of(*trainer));
  const Value loss = values.of(*trainer, "loss_function");
  std::string last = forward;
  const std::string type = loss.is(Value::Kind::object) ? type_of(loss.item->target()) : "";
  Json fields = {{"in", forward}};
  if (const Value batch = prepared_batch(*trainer); batch.items.size() == 2) {
    fields["nc_label_key"] = batch.items[0].text();
    fields["hv_label_key"] = batch.items[1].text();
  }
  const Spec* of_loss = catalogue_.find(type);
  if (!target_.empty() && of_loss && of_loss->find_param("label_key"))
    fields["label_key"] = target_;
  if (of_loss && of_loss->family == "loss")
    last = emit(*loss.item, type, std::move(fields), true, "loss");
  else if (loss.is(Value::Kind::object))
    missing(*loss.item, "there is no such loss", true);
  else
    report.add(*trainer, "loss_function", Fate::missing, loss.describe(), true);
  if (const Value step = values.of(*trainer, "optimizer"); step.is(Value::Kind::object))
    optimizer(*step.item, last);

  // Metrics of training batches: softmax and argmax are the metric's own.
  bool exclusive = true;
  one_hot_ = false;
  const auto post = transforms_of(values.of(*trainer, "postprocessing"));
  look_at_batches(*trainer, post);
  for (const auto& item : post) {
    const std::string name = class_name(item->target());
    one_hot_ = one_hot_ || is_one_hot(*item);
    splits_classes_ = splits_classes_ || name == "SplitPredsLabel";
    exclusive = exclusive && (name == "AsDiscrete" ? values.given(*item, "argmax")
                                                   : !values.is_true(*item, "sigmoid"));
    report.add(*item, last_name(item->target()), Fate::replaced,
               "metrics of training batches take the scores");
  }
  for (const char* key : {"key_train_metric", "additional_metrics"}) {
    const Value dict = values.of(*trainer, key);
    if (exclusive) {
      metrics(dict, forward, forward);
    } else {
      for (const auto& [name, metric] : dict.entries)
        if (metric.is(Value::Kind::object))
          report.add(*metric.item, last_name(metric.item->target()), Fate::replaced,
                     "the loss of training batches; the same metric is measured in validation");
    }
  }
  if (const ItemPtr saver = std::exchange(best_saver_, nullptr))
    report.add(*saver->find("save_key_metric"), "CheckpointSaver.save_key_metric", Fate::missing,
               "the best epoch is a validation's: metrics of training batches are not complete",
               false);
  rest(*trainer, "nothing here does what it says", true);
  validate();
}

// What a training's ValidationHandler asks for.
void Translator::validate() {
  const ItemPtr validator =
      validator_ ? validator_ : engine({"validate#evaluator", "evaluator"}, "Evaluator");
  if (!validator || validation_.is_null()) return;
  report.add(*validator, last_name(validator->target()), Fate::translated,
             "the validation's nodes");
  handlers(values.of(*validator, "val_handlers"), true);
  evaluate(*validator, "val", validation_);
}

}  // namespace sluice::bundle
