// RetinaNetDetector, and the engines of lung_nodule_ct_detection, whose scripts are known by their
// texts.
//
//   image ─ pad ─ batch ─ forward ─ anchors ─ loss ─ step                               training
//   image, padded ─ batch ─ infer ─ anchors ─ found ─ each ─ what becomes of the boxes  inference
#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

std::string class_name(const std::string& target);

// RetinaNet's feature_extractor: the layers of a ResNet that it looks at, as parameters of
// retina_net.
void Translator::feature_pyramid(const Item& net, const Spec& spec, Json& body) {
  const Value features = values.of(net, "feature_extractor");
  if (!features.is(Value::Kind::object) ||
      last_name(features.item->target()) != "resnet_fpn_feature_extractor")
    return missing(net,
                   "its feature_extractor is " + features.describe() +
                       ": resnet_fpn_feature_extractor is known",
                   true);
  const Value backbone = values.of(*features.item, "backbone");
  const std::string name =
      backbone.is(Value::Kind::object) ? last_name(backbone.item->target()) : "";
  if (!name.starts_with("resnet"))
    return missing(*features.item, "its backbone is " + backbone.describe() + ": ResNets are known",
                   true);
  body["in_channels"] = 3;
  if (const auto channels = values.of(*backbone.item, "n_input_channels").json();
      channels && !channels->is_null())
    body["in_channels"] = *channels;
  body["backbone"] = name;
  fill(*features.item, spec, body, true);
  fill(*backbone.item, spec, body, true);
  report.add(*features.item, last_name(features.item->target()), Fate::translated,
             "parameters of retina_net");
  report.add(*backbone.item, name, Fate::translated, "parameters of retina_net");
}

// What a call of one of the detector's set_... says; false where there is no such thing here.
bool Translator::set_up(Detector& d, const Value& setting) {
  Json given = Json::object();
  for (const auto& [key, value] : setting.entries) {
    if (value.is(Value::Kind::device) || key == "sw_device" || key == "device" ||
        key == "progress" || key == "cache_roi_weight_map")
      continue;
    const auto json = value.json();
    if (!json) return false;
    given[key] = *json;
  }
  if (setting.name == "set_target_keys") {
    d.box_key = given.value("box_key", "");
    d.label_key = given.value("label_key", "");
  } else if (setting.name == "set_box_coder_weights") {
    d.loss["box_coder_weights"] = d.selector["box_coder_weights"] = given["weights"];
  } else if (setting.name == "set_box_selector_parameters") {
    d.selector.update(given);
  } else if (setting.name == "set_sliding_window_inferer") {
    d.windows = {{"overlap", 0.5}};
    d.windows.update(given);
  } else if (setting.name.ends_with("_matcher")) {
    d.loss["matcher"] = setting.name == "set_atss_matcher" ? "atss" : "iou";
    d.loss.update(given);
  } else {
    d.loss["sampler"] = setting.name == "set_balanced_sampler" ? "balanced" : "hard_negative";
    d.loss.update(given);
  }
  return true;
}

// A RetinaNetDetector with its network and all that is set before the engine runs.
std::optional<Translator::Detector> Translator::detector(const Item& engine, const Value& given) {
  if (!given.is(Value::Kind::object) || last_name(given.item->target()) != "RetinaNetDetector") {
    missing(engine, "its detector is " + given.describe() + ": RetinaNetDetector is known", true);
    return {};
  }
  Detector d;
  d.item = given.item;
  const Value net = values.of(*d.item, "network");
  network(net);
  if (graph.models.empty() || graph.models.front().body["type"] != "retina_net") {
    missing(*d.item, "its network is " + net.describe() + ": RetinaNet is known", true);
    return {};
  }
  std::vector<Value> settings;
  asked_for_.clear();
  told_by("initialize", settings);
  try {
    required(engine, settings);
  } catch (const Refused& refused) {
    report.add(*engine.find("_requires_"), last_name(engine.target()) + "._requires_",
               Fate::missing, refused.what(), true);
  }
  for (const Value& setting : settings)
    if (setting.name.starts_with("set_") && setting.item && setting.item->id == d.item->id &&
        !set_up(d, setting))
      missing(*d.item, setting.name + "() of other than numbers and texts", true);
  d.divisible = values.of(*net.item, "size_divisible").json().value_or(Json());
  const Json& body = graph.models.front().body;
  const Json layers = body.value(
      "returned_layers", catalogue_.find("retina_net")->find_param("returned_layers")->fallback);
  for (std::size_t level = 0; level <= layers.size(); ++level) {
    d.classes.push_back("classes_" + std::to_string(level));
    d.changes.push_back("changes_" + std::to_string(level));
  }
  values.of(*d.item, "anchor_generator");
  rest(*d.item, "left out", true);
  report.add(*d.item, "RetinaNetDetector", Fate::translated, "anchors, box_selector, loss");
  return d;
}

Json Translator::outputs_of(const Detector& d) const {
  Json all = d.classes;
  all.insert(all.end(), d.changes.begin(), d.changes.end());
  return all;
}

std::string Translator::anchors(const Detector& d, const std::string& key, const std::string& in) {
  const Value generator = values.of(*d.item, "anchor_generator");
  const std::string type =
      generator.is(Value::Kind::object) ? type_of(generator.item->target()) : "";
  if (!type.starts_with("anchor_generator")) {
    missing(*d.item, "its anchor_generator is " + generator.describe(), true);
    return in;
  }
  return emit(*generator.item, type, {{"in", in}, {"key", key}, {"map_keys", d.classes}}, true,
              "anchors");
}

// The network on whole images, or window by window where they are larger than a window.
std::string Translator::look_for_boxes(const Item& evaluator, const Item& inferer,
                                       const Detector& d, std::string in) {
  const std::string comment = comment_of(inferer);
  std::string key = "image";
  const auto next = [&](const char* name, Json body) {
    body["in"] = in;
    in = add_node(node_name(name), std::move(body), comment);
  };
  if (d.divisible.is_array() || (d.divisible.is_number() && d.divisible != 1)) {
    key = "padded";
    next("copy", {{"type", "copy_items"}, {"keys", "image"}, {"names", key}});
    next("pad", {{"type", "divisible_pad"}, {"keys", key}, {"k", d.divisible}, {"method", "end"}});
  }
  next("ebatch", {{"type", "batch"}, {"size", 1}});
  const bool forced = values.is_true(inferer, "force_sliding_window");
  if (d.windows.is_null()) {
    if (forced) missing(inferer, "force_sliding_window without set_sliding_window_inferer()", true);
    next("infer",
         {{"type", "model"}, {"net", "net"}, {"keys", {key}}, {"output_keys", outputs_of(d)}});
  } else {
    Json body = {{"type", "sliding_window"},
                 {"net", "net"},
                 {"key", key},
                 {"output_key", outputs_of(d)},
                 {"smaller_outputs", "coarse"}};
    if (!forced) body["whole_key"] = "image";
    body.update(d.windows);
    next("infer", std::move(body));
  }
  rest(inferer, "left out", true);
  report.add(inferer, last_name(inferer.target()), Fate::translated,
             d.windows.is_null() ? "model" : "sliding_window");
  in = anchors(d, key, in);
  values.of(evaluator, "network");  // the detector's
  return in;
}

void Translator::find_boxes(const Item& evaluator, const std::string& source_name,
                            const Json& more) {
  const std::string kind = last_name(evaluator.target());
  const Value inferer = values.of(evaluator, "inferer");
  const std::string name = inferer.is(Value::Kind::object) ? last_name(inferer.item->target()) : "";
  if (!known_script(config_.folder(), kind) || name != "RetinaNetInferer" ||
      !known_script(config_.folder(), name))
    return missing(evaluator, "it and its inferer are known by their scripts' texts, which differ",
                   true);
  precision(evaluator);
  const auto d = detector(evaluator, values.of(*inferer.item, "detector"));
  if (!d) return;
  const bool measures =
      values.given(evaluator, "key_val_metric") || values.given(evaluator, "additional_metrics");
  const Loader data = loader(
      values.of(evaluator, "val_data_loader"), false, source_name,
      measures ? std::vector<std::string>{d->box_key, d->label_key} : std::vector<std::string>{},
      more);
  if (data.last.empty()) return;
  if (data.batch_size > 1)
    report.add(*values.of(evaluator, "val_data_loader").item, "DataLoader.batch_size",
               Fate::replaced, "images one by one: none is filled up to another one's size");
  std::string last = look_for_boxes(evaluator, *inferer.item, *d, data.last);
  Json found = {{"type", "box_selector"},
                {"in", last},
                {"cls_keys", d->classes},
                {"box_reg_keys", d->changes}};
  if (!measures)
    found.update({{"box_key", d->box_key},
                  {"label_key", d->label_key},
                  {"score_key", d->label_key + "_scores"}});
  found.update(d->selector);
  last = add_node(node_name("found"), std::move(found), comment_of(*d->item));
  if (saver_ && measures)
    missing(*saver_, "left out: an evaluator measures or saves", false);
  else if (saver_)
    save_boxes(*d, last);
  metrics_.clear();
  for (const char* key : {"key_val_metric", "additional_metrics"})
    boxes_metric(values.of(evaluator, key), *d, last);
  keep_best(evaluator);
  rest(evaluator, "nothing here does what it says", true);
}

// DetectionSaver, and what its output_transform makes of the boxes.
void Translator::save_boxes(const Detector& d, std::string in) {
  const Item& item = *saver_;
  const std::string scores = d.label_key + "_scores", comment = comment_of(item);
  const std::vector<std::string> fields{d.box_key, d.label_key, scores};
  for (const auto& [key, field] : {std::pair{"pred_box_key", "box"},
                                   {"pred_label_key", "label"},
                                   {"pred_score_key", "label_scores"}}) {
    const std::string named = values.given(item, key) ? values.of(item, key).text() : field;
    if (std::find(fields.begin(), fields.end(), named) == fields.end())
      missing(item, std::string(key) + " \"" + named + "\" is no field of the detector's", true);
  }
  in = add_node(
      "boxes",
      {{"type", "select_items"}, {"in", in}, {"keys", {"image", d.box_key, d.label_key, scores}}},
      comment);
  in = add_node("each", {{"type", "decollate"}, {"in", in}}, comment);

  // lambda x: [@ID({**xx['pred'], 'image': xx['image']}) for xx in x]
  const Value how = values.of(item, "output_transform");
  const Expr* body = how.is(Value::Kind::lambda) ? how.expr->args[0].get() : nullptr;
  const Expr* made =
      body && body->kind == Expr::Kind::comprehension ? body->args[0].get() : nullptr;
  const Expr* by = made && made->kind == Expr::Kind::call ? made->args[0].get() : nullptr;
  if (by && by->kind == Expr::Kind::reference &&
      text_of(*how.expr) ==
          text_of(*parse_expression(
              "lambda x: [@" + by->text + "({**xx['pred'], 'image': xx['image']}) for xx in x]", "",
              item.at))) {
    std::vector<ItemPtr> transforms;
    for (const ItemPtr& one : transforms_of(values.of_id(by->text, item.at)))
      if (class_name(one->target()) == "DeleteItems")
        report.add(*one, last_name(one->target()), Fate::dropped,
                   "what is written are the boxes alone");
      else
        transforms.push_back(one);
    in = chain(transforms, in);
  } else if (how.name != "from_engine") {
    missing(item, "its output_transform is code of its own", true);
  }
  Json saves = {{"in", in}, {"keys", fields}};
  if (values.given(item, "output_dir"))
    saves["output_dir"] = values.path(values.of(item, "output_dir").text());
  emit(item, "save_boxes", std::move(saves), true, "save");
}

void Translator::boxes_metric(const Value& dict, const Detector& d, const std::string& in) {
  for (const auto& [key, value] : dict.entries) {
    if (!value.is(Value::Kind::object)) continue;
    const Item& item = *value.item;
    const std::string name = last_name(item.target());
    const Value coco = values.of(item, "coco_metric_monai");
    if (name != "IgniteCocoMetric" || !known_script(config_.folder(), name) ||
        !coco.is(Value::Kind::object) || last_name(coco.item->target()) != "COCOMetric") {
      missing(item, "not measured: of boxes there is COCOMetric", false);
      continue;
    }
    const auto is = [&](const char* param, const std::string& otherwise, const std::string& field) {
      return (values.given(item, param) ? values.of(item, param).text() : otherwise) == field;
    };
    if (!is("box_key", "box", d.box_key) || !is("label_key", "label", d.label_key) ||
        !is("pred_score_key", "label_scores", d.label_key + "_scores"))
      missing(item, "its keys are not those of the detector's set_target_keys()", true);
    const Json classes = values.of(*coco.item, "classes").json().value_or(Json::array());
    const std::string node = emit(*coco.item, "coco_metric",
                                  {{"in", in},
                                   {"keys", {"pred_box", d.box_key}},
                                   {"label_key", d.label_key},
                                   {"num_classes", classes.size()},
                                   {"class_names", classes}},
                                  false, key.is_string() ? key.get<std::string>() : "coco");
    rest(item, "left out", false);
    report.add(item, name, Fate::translated, "coco_metric");
    if (values.is_true(item, "reduce_scalar", true))
      report.add(item, name + ".reduce_scalar", Fate::replaced,
                 "the best epoch is that of mAP; MONAI's is that of the mean of all its numbers");
    if (key.is_string()) metrics_[key.get<std::string>()] = node + ".mAP";
  }
}

void Translator::train_detector(const Item& trainer) {
  const std::string comment = comment_of(trainer);
  report.add(trainer, last_name(trainer.target()), Fate::translated,
             "the nodes of the graph; the script's text is known");
  precision(trainer);
  const auto d = detector(trainer, values.of(trainer, "detector"));
  if (!d) return;
  if (const auto epochs = values.of(trainer, "max_epochs").json()) graph.run["epochs"] = *epochs;
  look_at_calls();
  handlers(values.of(trainer, "train_handlers"), true);
  const Loader data = loader(values.of(trainer, "train_data_loader"), true, "train",
                             {d->box_key, d->label_key}, Json::object());
  if (data.last.empty()) return;
  std::string last = data.last;
  const auto next = [&](const char* name, Json body) {
    body["in"] = last;
    last = add_node(name, std::move(body), comment);
  };
  if (d->divisible.is_array() || (d->divisible.is_number() && d->divisible != 1))
    next("pad",
         {{"type", "divisible_pad"}, {"keys", "image"}, {"k", d->divisible}, {"method", "end"}});
  next("lean", {{"type", "select_items"}, {"keys", {"image", d->box_key, d->label_key}}});
  Json batch = {{"type", "batch"}, {"size", data.batch_size * patches_}};
  if (data.drop_last) batch["drop_last"] = true;
  next("batch", std::move(batch));
  next("forward", {{"type", "model"}, {"net", "net"}, {"output_keys", outputs_of(*d)}});
  last = anchors(*d, "image", last);
  Json loss = {{"type", "retina_net_loss"},
               {"cls_keys", d->classes},
               {"box_reg_keys", d->changes},
               {"box_key", d->box_key},
               {"label_key", d->label_key}};
  loss.update(d->loss);
  next("loss", std::move(loss));
  if (const Value step = values.of(trainer, "optimizer"); step.is(Value::Kind::object))
    optimizer(*step.item, last);
  rest(trainer, "nothing here does what it says", true);
  validate();
}

// GradualWarmupScheduler: total_epoch epochs in a straight line up to lr; then a StepLR, which
// begins an epoch later.
void Translator::warm_up(const Item& handler, const Item& item) {
  const Json epochs = values.of(item, "total_epoch").json().value_or(Json()),
             all = graph.run.value("epochs", Json());
  if (values.of(item, "multiplier").json() != Json(1) || !epochs.is_number_integer() ||
      epochs < 1 || !all.is_number_integer() || !values.is_true(handler, "epoch_level", true))
    return missing(item, "a climb by epochs to the optimizer's lr (multiplier 1) is known", true);
  const std::int64_t climb = epochs.get<std::int64_t>() - 1;
  if (climb > 0) {
    step_["warmup_steps"] = climb;
    step_["warmup_multiplier"] = 1.0 / static_cast<double>(climb + 1);
  }
  const Value after = values.of(item, "after_scheduler");
  if (after.is(Value::Kind::object) && last_name(after.item->target()) == "StepLR") {
    const Json every = values.of(*after.item, "step_size").json().value_or(Json());
    if (!every.is_number_integer() || every < 1) return missing(*after.item, "its step_size", true);
    Json milestones = Json::array();
    for (std::int64_t at = every.get<std::int64_t>() + 1;
         at + climb < all.get<std::int64_t>() && milestones.size() < 32;
         at += every.get<std::int64_t>())
      milestones.push_back(at);
    if (!milestones.empty()) {
      step_["lr_schedule"] = "multi_step";
      step_["milestones"] = milestones;
      step_["gamma"] = values.given(*after.item, "gamma")
                           ? values.of(*after.item, "gamma").json().value_or(Json())
                           : Json(0.1);
    }
    values.of(*after.item, "gamma");
    rest(*after.item, "left out", true);
    report.add(*after.item, "StepLR", Fate::translated, "milestones after the climb");
  } else if (!after.is(Value::Kind::plain) || !after.plain.is_null()) {
    missing(item, "its after_scheduler is " + after.describe() + ": StepLR is known", true);
  }
  rest(handler, "left out", true);
  rest(item, "left out", true);
  report.add(item, last_name(item.target()), Fate::translated,
             "a warm-up; the script's text is known");
}

}  // namespace sluice::bundle
