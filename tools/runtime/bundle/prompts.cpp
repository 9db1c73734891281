// Vista3dEvaluator, a script that is known by its text: a network is asked for classes.
//
//   source ─ transforms ─ class_vector ─ sliding_window ─ vista_post_transform ─ ... ─ files
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

// The classes that the samples, or else the engine, ask for.
Json Translator::asked_classes(const Item& evaluator, const Value& samples) {
  Json asked;
  for (const Value& sample : samples.items) {
    Json own;
    for (const auto& [key, value] : sample.entries) {
      if (key == "label_prompt") own = value.json().value_or(Json());
      if (key == "points")
        missing(evaluator,
                "points: in a graph they are fields of the sample, which sliding_window takes as "
                "point_keys (graphs/README.md, \"Prompts\")",
                true);
    }
    if (&sample != &samples.items.front() && own != asked)
      missing(evaluator, "its samples ask for different classes: a graph each", true);
    asked = own;
  }
  if (!asked.is_null()) return asked;
  for (const auto& [key, value] : values.of(evaluator, "hyper_kwargs").entries)
    if (key == "everything_labels") asked = value.json().value_or(Json());
  return asked;
}

// VistaPreTransformd: a class that stands for several becomes these.
void Translator::subclasses(const Item& transform) {
  Json all = Json::array();
  const Value parts = values.of(transform, "subclass");
  for (const Json& one : prompts_) {
    Json own = Json::array({one});
    for (const auto& [key, value] : parts.entries)
      if (key == one.dump()) own = value.json().value_or(Json::array());
    all.insert(all.end(), own.begin(), own.end());
  }
  prompts_ = all;
  report.add(transform, last_name(transform.target()), Fate::translated,
             "the classes of class_vector");
}

void Translator::ask(const Item& evaluator) {
  report.add(evaluator, last_name(evaluator.target()), Fate::translated,
             "the nodes of the graph; the script's text is known");
  precision(evaluator);
  network(values.of(evaluator, "network"));
  look_at_calls();
  handlers(values.of(evaluator, "val_handlers"), false);
  graph.run.erase("checkpoint");
  if (graph.models.empty()) return;
  Json& net = graph.models.front().body;
  if (net.contains("weights")) net["partial"] = true;  // those of points are not read

  const Value inferer = values.of(evaluator, "inferer"),
              data = values.of(evaluator, "val_data_loader");
  const Value set = data.item ? values.of(*data.item, "dataset") : Value{};
  if (!inferer.is(Value::Kind::object) || !set.is(Value::Kind::object) ||
      !known_script(config_.folder(), last_name(inferer.item->target()))) {
    missing(evaluator, "its inferer is " + inferer.describe() + ": Vista3dInferer is known", true);
    return;
  }
  prompts_ = asked_classes(evaluator, values.of(*set.item, "data"));
  if (!prompts_.is_array() || prompts_.empty() ||
      !std::all_of(prompts_.begin(), prompts_.end(),
                   [](const Json& one) { return one.is_number_integer(); })) {
    missing(evaluator,
            "label_prompt is a list of classes' numbers, as channel_def of configs/metadata.json "
            "has them; give it with --set \"input_dict={'image': 'FILE', 'label_prompt': [3]}\"",
            true);
    return;
  }
  const Loader cases = loader(data, false, "cases", {}, Json::object());
  if (cases.last.empty()) return;
  std::string last = condition(prompts_, "class_vector", "", cases.last, comment_of(evaluator));

  const Item& windows = *inferer.item;
  Json body = {
      {"type", "sliding_window"}, {"in", last}, {"net", "net"}, {"further_keys", {"class_vector"}}};
  for (const char* param : {"roi_size", "sw_batch_size"})
    if (const auto given = values.of(windows, param).json(); given && !given->is_null())
      body[param] = *given;
  if (values.given(windows, "overlap") && values.of(windows, "overlap").json() != Json(0.25))
    report.add(*windows.find("overlap"), "Vista3dInferer.overlap", Fate::replaced,
               "0.25: the script's windows overlap otherwise around points alone");
  values.of(windows, "use_point_window");
  rest(windows, "left out", true);
  report.add(windows, last_name(windows.target()), Fate::translated, "sliding_window");
  last = add_node("infer", std::move(body), comment_of(windows));

  const auto post = transforms_of(values.of(evaluator, "postprocessing"));
  look_at_batches(evaluator, post);
  chain(post, last);
  values.of(evaluator, "hyper_kwargs");
  rest(evaluator, "nothing here does what it says", true);
}

}  // namespace sluice::bundle
