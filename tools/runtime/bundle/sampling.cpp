// Diffusion models. What they make of noise, in a bundle whose program is an expression, not an
// engine; and their training.
//
//   noise ─ batch ─ diffusion_inferer ─(decoder)─ decollate ─ what becomes of one image
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

namespace {

const Value* entry(const Value& made, const std::string& name) {
  for (const auto& [key, value] : made.entries)
    if (key == name && !(value.is(Value::Kind::plain) && value.plain.is_null())) return &value;
  return nullptr;
}

// What an item says as a program: a list's members one by one, or one expression.
std::vector<ItemPtr> lines_of(const ItemPtr& item) {
  return item->kind == Item::Kind::list ? item->elements : std::vector<ItemPtr>{item};
}

}  // namespace

// What a part of the program and all that it requires say, in their order.
void Translator::told(const ItemPtr& item, std::vector<Value>& effects) {
  if (item->kind == Item::Kind::list) {
    for (const auto& element : item->elements) told(element, effects);
    return;
  }
  const Value v = values.of(item);
  if (v.is(Value::Kind::object)) return required(*v.item, effects);
  for (const Value& one : v.items)  // a list that is named
    if (v.is_list() && one.is(Value::Kind::effect)) effects.push_back(one);
  if (!v.is(Value::Kind::effect)) return;
  if (v.name == "save") {
    if (v.item) required(*v.item, effects);
    for (const auto& [name, given] : v.items[0].entries)
      if (given.is(Value::Kind::object)) required(*given.item, effects);
    required(*v.items[0].item, effects);
  }
  effects.push_back(v);
}

void Translator::required(const Item& item, std::vector<Value>& effects) {
  const ItemPtr needs = item.find("_requires_");
  if (needs && asked_for_.insert(item.id).second) told(needs, effects);
}

// What a list of the configuration says; what of it is not known, look_at_calls() says.
void Translator::told_by(const char* key, std::vector<Value>& effects) {
  const ItemPtr list = config_.find(key);
  if (!list) return;
  for (const auto& line : lines_of(list)) {
    try {
      told(line, effects);
    } catch (const Refused&) {
    }
  }
}

// The program's part that saves images which are made, with all that was done by then; nothing
// where there is none.
std::vector<Value> Translator::program() {
  std::vector<std::pair<std::string, ItemPtr>> programs;
  if (const ItemPtr run = config_.find("run")) programs.emplace_back("run", run);
  for (const auto& [key, member] : config_.root()->members)
    if (key != "run" && key != "imports" && member->kind == Item::Kind::list)
      programs.emplace_back(key, member);
  for (const auto& [key, item] : programs) {
    std::vector<Value> effects;
    asked_for_.clear();
    if (key != "initialize") told_by("initialize", effects);
    try {
      for (const auto& line : lines_of(item))
        if (line->is_text() && (line->text().starts_with('$') || line->text().starts_with('@')))
          told(line, effects);
    } catch (const Refused& refused) {
      report.add(*item, key, Fate::missing, refused.what(), key == "run");
      continue;
    }
    if (std::any_of(effects.begin(), effects.end(),
                    [](const Value& v) { return v.name == "save"; }))
      return effects;
  }
  return {};
}

// A network of the program, with the weights that it loads.
bool Translator::sampled_network(const Value* given, const std::string& name,
                                 const std::vector<Value>& effects) {
  if (!given) return false;
  const std::size_t known = graph.models.size();
  network(*given, name);
  if (graph.models.size() == known) return false;
  Json& body = graph.models.back().body;
  if (name == "decoder" || name == "encoder") {
    if (body["type"] != "autoencoder_kl") return false;
    body["part"] = name;
  }
  const auto load_those_of = [&](const Item& loading) {
    for (const Value& v : effects)
      if (v.name == "weights" && v.item->id == loading.id) loaded(v, body);
    return body.contains("weights");
  };
  if (load_those_of(*given->item)) return true;
  for (const Value& v : effects)  // what has the same names in another network
    if (v.name == "copy_model_state" && v.item->id == given->item->id &&
        load_those_of(*v.items[0].item))
      body["partial"] = true;
  return true;
}

// Into a network's body: FILE or FILE#KEY of load_state_dict().
void Translator::loaded(const Value& weights, Json& body) {
  const std::string from = weights.plain.get<std::string>(), file = from.substr(0, from.find('#'));
  body["weights"] = file;
  if (file.size() < from.size()) body["weights_key"] = from.substr(file.size() + 1);
}

void Translator::scale_factor(const Item& inferer, Json& body) {
  if (!values.given(inferer, "scale_factor")) return;
  std::string why = "a number is known";
  try {
    if (const auto factor = values.of(inferer, "scale_factor").json();
        factor && factor->is_number()) {
      body["scale_factor"] = *factor;
      return;
    }
  } catch (const Refused& refused) {
    why = refused.what();
  }
  report.add(*inferer.find("scale_factor"), last_name(inferer.target()) + ".scale_factor",
             Fate::missing, why, true);
}

// A field with a condition's numbers, the same in every sample.
std::string Translator::condition(const Json& numbers, const std::string& key,
                                  const std::string& over, const std::string& in,
                                  const std::string& comment) {
  Json body = {{"type", "add_constant"}, {"in", in}, {"key", key}, {"value", numbers}};
  if (!over.empty()) body["over"] = over;
  return add_node(key, std::move(body), comment);
}

bool Translator::sampling() {
  const std::vector<Value> effects = program();
  const auto save =
      std::find_if(effects.begin(), effects.end(), [](const Value& v) { return v.name == "save"; });
  if (save == effects.end()) return false;
  const Value& made = save->items[0];
  if (!made.is(Value::Kind::made)) {
    answers(effects);
    return true;
  }
  const Item& inferer = *made.item;
  const std::string name = last_name(inferer.target());
  const bool script = inferer.target().starts_with("scripts.");
  const Value* decoder = entry(made, "autoencoder_model");
  if (!sampled_network(entry(made, "diffusion_model"), "net", effects) ||
      (decoder && !sampled_network(decoder, "decoder", effects))) {
    missing(inferer, "its networks are not known", true);
    return true;
  }

  look_at_calls();

  // The noise: the first of the batch alone where the others are not saved.
  const Value* noise = entry(made, "input_noise");
  if (!noise || !noise->name.starts_with("torch.rand") || noise->items.size() < 3) {
    missing(inferer, "its input_noise is no torch.randn() of a batch", true);
    return true;
  }
  Json sizes = Json::array();
  for (const Value& n : noise->items) sizes.push_back(n.json().value_or(Json()));
  Json source = {{"type", "noise"},
                 {"num_samples", made.plain.is_null() ? sizes[0] : Json(1)},
                 {"shape", Json(std::vector<Json>(sizes.begin() + 1, sizes.end()))},
                 {"key", "image"}};
  if (noise->name == "torch.randn") source["distribution"] = "normal";
  std::string last = add_node("noise", std::move(source), comment_of(inferer));

  Json body = {{"net", "net"}, {"output_key", decoder ? "latent" : "pred"}};
  if (const Value* given = entry(made, "conditioning")) {
    const Value* mode = entry(made, "mode");
    const auto numbers = given->json();
    const bool is_one = numbers && numbers->is_array() && numbers->size() == 1;
    const Json tokens = is_one ? numbers->at(0) : Json();
    if ((mode && mode->text() != "crossattn") || !tokens.is_array() || tokens.empty() ||
        !tokens[0].is_array() || (script && tokens.size() != 1)) {
      missing(inferer,
              "its conditioning is " + given->describe() +
                  ": numbers of one image are known, in the mode crossattn",
              true);
      return true;
    }
    const std::string comment = comment_of(inferer) + ": conditioning";
    last = condition(tokens, "context", "", last, comment);
    body["keys"] = {"image", "context"};
    if (script) {  // whose samplers also lay each number over the noise, as a channel
      last = condition(tokens[0], "condition", "image", last, comment);
      body["condition_key"] = "condition";
    }
  }
  body["in"] =
      add_node("batch", {{"type", "batch"}, {"in", last}, {"size", 1}}, comment_of(inferer));

  const Value* given = entry(made, "scheduler");
  const Value own = given ? *given : values.of(inferer, "scheduler");
  if (!noise_schedule(own, "diffusion_inferer", body)) {
    missing(inferer,
            "its scheduler is " + own.describe() + ": DDPM, DDIM, PNDM and RFlow are known", true);
    return true;
  }
  for (const Value& v : effects)
    if (v.name == "timesteps" && v.item->id == own.item->id) body["num_inference_steps"] = v.plain;
  if (!body.contains("num_inference_steps") && body.contains("num_train_timesteps"))
    body["num_inference_steps"] = body["num_train_timesteps"];
  scale_factor(inferer, body);
  values.of(inferer, "scheduler");
  rest(inferer, "left out", true);
  report.add(
      inferer, name, Fate::translated,
      script ? "diffusion_inferer in float32; the script's text is known" : "diffusion_inferer");
  body["type"] = "diffusion_inferer";
  last = add_node("made", std::move(body), comment_of(inferer));
  if (decoder)
    last = add_node("decode",
                    {{"type", "model"}, {"in", last}, {"net", "decoder"}, {"keys", "latent"}},
                    comment_of(inferer));
  last = add_node("each", {{"type", "decollate"}, {"in", last}}, comment_of(inferer));
  for (const Value& v : effects)
    if (v.name == "save" && &v != &*save)
      missing(v.item ? *v.item : inferer, "further images are saved: the first alone are here",
              true);
  if (made.plain.is_null())
    report.add(
        *save->item, last_name(save->item->target()), Fate::replaced,
        "each image of the batch is saved: MONAI's takes the batch for one image's channels");
  else if (made.plain.get<int>() > 1)
    report.add(*save->item, last_name(save->item->target()), Fate::replaced,
               "images keep their channel: without it MONAI's takes the first axis for channels");
  saved(*save, "pred", last);
  return true;
}

// One image of a batch, by SaveImage, a chain that ends with it, or a script into a file.
void Translator::saved(const Value& save, const std::string& key, std::string in) {
  if (save.item) {
    Value saver;
    saver.kind = Value::Kind::object;
    saver.item = save.item;
    field_ = key;
    chain(transforms_of(saver), in);
    field_.clear();
    return;
  }
  const Item& script = *save.items[0].item;
  const bool sampled = save.items[0].is(Value::Kind::made);
  const std::filesystem::path file = values.path(save.plain.get<std::string>());
  const std::string comment = comment_of(script);
  const auto next = [&](const char* type, Json body) {
    body["type"] = type;
    body["in"] = in;
    body["keys"] = key;
    in = add_node(type, std::move(body), comment);
  };
  next("threshold_intensity", {{"threshold", 0}});
  next("scale_intensity", Json::object());
  // A sampler's script turns the image about and has its first axis from left to right, as files
  // of pictures have here; others have it from top to bottom.
  if (sampled)
    next("flip", {{"spatial_axis", {0, 1}}});
  else
    next("transpose", {{"indices", {0, 2, 1}}});
  next("repeat_channel", {{"repeats", 3}});
  next("save_image", {{"output_dir", file.parent_path().string()},
                      {"output_postfix", file.stem().string()},
                      {"output_ext", ".png"},
                      {"separate_folder", false},
                      {"scale", 255}});
  report.add(script, sampled ? last_name(script.target()) + ".run" : "visualize_2d_image",
             Fate::replaced,
             "a picture from 0 to the greatest value; the script's is darker where every value is "
             "below 0.1, and brighter where every value is above 0");
}

// A scheduler's settings into the body of a node that takes them; those of sampling alone say
// nothing in training.
bool Translator::noise_schedule(const Value& given, const std::string& type, Json& body) {
  static const std::pair<const char*, const char*> known[]{{"DDPMScheduler", "ddpm"},
                                                           {"DDIMScheduler", "ddim"},
                                                           {"PNDMScheduler", "pndm"},
                                                           {"RFlowScheduler", "rflow"}};
  if (!given.is(Value::Kind::object)) return false;
  const Item& item = *given.item;
  for (const auto& [name, scheduler] : known) {
    if (last_name(item.target()) != name) continue;
    Json settings = {{"scheduler", scheduler}};
    fill(item, *catalogue_.find("diffusion_inferer"), settings, true);
    for (const auto& [key, value] : settings.items())
      if (catalogue_.find(type)->find_param(key)) body[key] = value;
    report.add(item, name, Fate::translated, "scheduler and its settings");
    return true;
  }
  return false;
}

// ---- training -----------------------------------------------------------------------------------

// What DiffusionPrepareBatch, or the latent trainer of a script that is known, makes of a batch.
std::string Translator::noisy(const Item& engine, const Value& inferer, std::string in) {
  const bool latent = last_name(engine.target()) == "LDMTrainer";
  Json body = {{"type", "diffusion_prepare_batch"}};
  if (latent) {
    std::vector<Value> effects;
    asked_for_.clear();
    for (const char* key : {"initialize", "run", "training"}) told_by(key, effects);
    const Value encoder = values.of(engine, "autoencoder_model");
    if (!sampled_network(&encoder, "encoder", effects)) {
      missing(engine, "its autoencoder_model is " + encoder.describe(), true);
      return in;
    }
    values.of(engine, "latent_shape");  // the noise has the latent image's
    in = add_node("latent",
                  {{"type", "model"}, {"in", in}, {"net", "encoder"}, {"output_keys", "latent"}},
                  comment_of(engine));
    report.add(engine, "LDMTrainer.autoencoder_model", Fate::replaced,
               "latent images are the encoder's mean, where MONAI draws about it");
    body["key"] = "latent";
    scale_factor(*inferer.item, body);
  }
  body["in"] = in;
  const Value scheduler = values.of(*inferer.item, "scheduler");
  if (!noise_schedule(scheduler, "diffusion_prepare_batch", body))
    missing(*inferer.item, "its scheduler is " + scheduler.describe(), true);
  if (!latent) {
    const Item& prepare = *values.of(engine, "prepare_batch").item;
    const Json steps = values.of(prepare, "num_train_timesteps").json().value_or(Json());
    if (steps != body.value("num_train_timesteps", Json(1000)))
      missing(prepare, "it draws other timesteps than the scheduler has", true);
    rest(prepare, "left out", true);
    report.add(prepare, last_name(prepare.target()), Fate::translated, "diffusion_prepare_batch");
  }
  rest(*inferer.item, "left out", true);
  report.add(*inferer.item, last_name(inferer.item->target()), Fate::translated,
             "diffusion_prepare_batch and model");
  return add_node("noisy", std::move(body), comment_of(*inferer.item));
}

std::string Translator::denoise(const Item& engine, const std::string& in,
                                const std::string& name) {
  const Value inferer = values.of(engine, "inferer");
  if (!inferer.is(Value::Kind::object)) return "";
  const std::string kind = last_name(inferer.item->target());
  const bool latent = last_name(engine.target()) == "LDMTrainer";
  if (kind != (latent ? "LatentDiffusionInferer" : "DiffusionInferer")) return "";
  if (!latent) {
    Value prepare;
    try {
      prepare = values.of(engine, "prepare_batch");
    } catch (const Refused&) {  // prepared_batch() says so
    }
    if (!prepare.is(Value::Kind::object) ||
        last_name(prepare.item->target()) != "DiffusionPrepareBatch")
      return "";
  }
  target_ = "target";
  return add_node(name,
                  {{"type", "model"},
                   {"in", noisy(engine, inferer, in)},
                   {"net", "net"},
                   {"keys", {"noisy", "timesteps"}}},
                  comment_of(engine));
}

}  // namespace sluice::bundle
