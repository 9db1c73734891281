// Two networks against each other. GanTrainer:
//
//   latents ─ make ─ judge_step (d_train_steps times) ─(make again)─ judged ─ fooled ─ step
//
// VaeGanTrainer, a script that is known by its text: an autoencoder whose images should pass for
// real ones. Of one of its two texts the judge's steps come last.
//
//   images ─ make ─ judge_step ─ judged ─ fooled, intensity, kl, perceptual ─ loss ─ step
#include <algorithm>

#include "engine/base/shell_word.h"
#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

namespace {

std::optional<double> number_of(const Expr& e) {
  if (e.kind == Expr::Kind::constant && e.value.is_number()) return e.value.get<double>();
  return {};
}

Json pass(const char* net, const std::string& key, const Json& to) {
  return {{"type", "model"}, {"net", net}, {"keys", key}, {"output_keys", to}};
}

// What a part of functools.partial() was given by this name.
const Value* given_as(const Value& partial, std::string_view name) {
  for (const auto& [key, value] : partial.entries)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace

// A sum of PatchAdversarialLoss(judge(x), target_is_real, for_discriminator), each with a factor,
// where x is one of the lambda's names.
bool Translator::judging_terms(const Expr& e, double weight, const Item& judge, const At& at,
                               std::vector<Judging>& terms) {
  if (e.kind == Expr::Kind::binary && e.text == "+")
    return judging_terms(*e.args[0], weight, judge, at, terms) &&
           judging_terms(*e.args[1], weight, judge, at, terms);
  if (e.kind == Expr::Kind::binary && (e.text == "*" || e.text == "/")) {
    if (const auto factor = number_of(*e.args[1]); factor && (e.text == "*" || *factor != 0))
      return judging_terms(*e.args[0], e.text == "*" ? weight * *factor : weight / *factor, judge,
                           at, terms);
    const auto factor = number_of(*e.args[0]);
    return factor && e.text == "*" && judging_terms(*e.args[1], weight * *factor, judge, at, terms);
  }
  if (e.kind != Expr::Kind::call || e.args.size() < 3 || e.args[0]->kind != Expr::Kind::reference ||
      e.args[1]->kind != Expr::Kind::call)
    return false;
  const Value loss = values.of_id(e.args[0]->text, at);
  const Expr& said = *e.args[1];
  if (!loss.is(Value::Kind::object) || last_name(loss.item->target()) != "PatchAdversarialLoss" ||
      said.args.size() != 2 || said.args[0]->kind != Expr::Kind::reference)
    return false;
  const Value asked = values.of_id(said.args[0]->text, at);
  const Expr* of = said.args[1].get();
  if (of->kind == Expr::Kind::call && of->args.size() == 1 &&
      of->args[0]->kind == Expr::Kind::attribute && of->args[0]->text == "detach")
    of = of->args[0]->args[0].get();
  if (!asked.is(Value::Kind::object) || asked.item->id != judge.id || of->kind != Expr::Kind::name)
    return false;
  Judging term{.of = of->text, .weight = weight};
  bool of_judge = true;
  for (std::size_t i = 2; i < e.args.size(); ++i) {
    const std::string name = e.names[i - 1];
    if (e.args[i]->kind != Expr::Kind::constant || !e.args[i]->value.is_boolean()) return false;
    const bool flag = e.args[i]->value.get<bool>();
    if (name == "target_is_real" || (name.empty() && i == 2))
      term.real = flag;
    else if (name == "for_discriminator" || (name.empty() && i == 3))
      of_judge = flag;
    else
      return false;
  }
  if (!of_judge) term.real = true;  // as MONAI's has it
  term.loss = {{"type", "patch_adversarial_loss"}};
  fill(*loss.item, *catalogue_.find("patch_adversarial_loss"), term.loss, true);
  report.add(*loss.item, "PatchAdversarialLoss", Fate::translated, "patch_adversarial_loss");
  terms.push_back(std::move(term));
  return true;
}

// What a loss function of the trainer's says: of "fakes", and of "reals" where it is the judge's.
std::vector<Translator::Judging> Translator::judging(const Item& trainer, const char* key,
                                                     const Item& judge, Json& judge_body) {
  std::vector<Judging> terms;
  const bool of_judge = std::string_view(key).starts_with("d_");
  const Value given = values.of(trainer, key);
  const At& at = values.given(trainer, key) ? trainer.find(key)->at : trainer.at;
  if (given.is(Value::Kind::lambda) && given.expr->names.size() == (of_judge ? 2 : 1) &&
      judging_terms(*given.expr->args[0], 1, judge, at, terms) &&
      std::all_of(terms.begin(), terms.end(), [&](const Judging& term) {
        const auto& names = given.expr->names;
        return std::find(names.begin(), names.end(), term.of) != names.end();
      })) {
    for (Judging& term : terms) term.of = term.of == given.expr->names[0] ? "fakes" : "reals";
    return terms;
  }
  terms.clear();
  // functools.partial(scripts.losses.generator_loss, disc_net=...)
  const std::string name = last_name(given.name);
  const ScriptRow* row =
      given.name.starts_with("scripts.") ? known_script(config_.folder(), name) : nullptr;
  const Value* asked = given_as(given, "disc_net");
  const bool of_this = asked && asked->is(Value::Kind::object) && asked->item->id == judge.id;
  if (row && row->type == "sum_losses" && of_this) {  // of an autoencoder
    const Json weights = Json::parse(row->params);
    const double weight = weights["adversarial"];
    Json loss = {{"type", "patch_adversarial_loss"}, {"criterion", weights["criterion"]}};
    terms.push_back(
        {.of = "fakes", .real = !of_judge, .weight = of_judge ? weight / 2 : weight, .loss = loss});
    if (of_judge)
      terms.push_back({.of = "reals", .real = true, .weight = weight / 2, .loss = std::move(loss)});
    return terms;
  }
  if (row && row->type == "patch_adversarial_loss" && of_this && given.entries.size() == 1 &&
      judge_body["type"] == "discriminator") {
    const Json act = judge_body.value("last_act", Json("SIGMOID"));
    if (act.is_null() || (act.is_string() && act == "SIGMOID")) {
      judge_body["last_act"] = nullptr;  // the loss has the sigmoid
      Json loss = {{"type", row->type}};
      loss.update(Json::parse(row->params));
      terms.push_back(
          {.of = "fakes", .real = !of_judge, .weight = of_judge ? 0.5 : 1, .loss = loss});
      if (of_judge) terms.push_back({.of = "reals", .real = true, .weight = 0.5, .loss = loss});
      return terms;
    }
  }
  report.add(trainer, last_name(trainer.target()) + "." + key, Fate::missing,
             given.describe() +
                 " is not known: write a lambda of PatchAdversarialLoss of what the discriminator "
                 "says, as $lambda fakes: @loss(@dnetwork(fakes), True, False)",
             true);
  return {};
}

// What the program does to the networks before it trains them.
void Translator::look_at_appended(const Item& maker, Json& maker_body) {
  for (const char* key : {"initialize", "run", "training"}) {
    const ItemPtr list = config_.find(key);
    if (!list || list->kind != Item::Kind::list) continue;
    for (const auto& line : list->elements) {
      try {
        const Value v = values.of(line);
        if (!v.is(Value::Kind::effect) || v.name != "append") continue;
        if (v.item->id == maker.id && maker_body["type"] == "generator" && v.plain == "Sigmoid")
          maker_body["last_act"] = "SIGMOID";
        else
          report.add(*line, key, Fate::missing, "a layer that is added to this network", true);
      } catch (const Refused& refused) {
        report.add(*line, key, Fate::missing, refused.what(), true);
      }
    }
  }
}

// The two networks, and what the trainer says of the run.
bool Translator::opponents(const Item& trainer) {
  network(values.of(trainer, "g_network"), "maker");
  network(values.of(trainer, "d_network"), "judge");
  if (graph.models.size() != 2) return false;
  if (const Json shape = graph.models[1].body.value("in_shape", Json()); shape.is_array())
    dims_ = static_cast<int>(shape.size()) - 1;
  look_at_appended(*values.of(trainer, "g_network").item, graph.models[0].body);
  if (const auto epochs = values.of(trainer, "max_epochs").json()) graph.run["epochs"] = *epochs;
  look_at_calls();
  handlers(values.of(trainer, "train_handlers"), true);
  if (!step_.empty())
    missing(trainer, "a schedule of one of two optimizers is not read: give it to the node", true);
  for (const char* key : {"g_inferer", "d_inferer"})
    if (const Value given = values.of(trainer, key); given.is(Value::Kind::object)) {
      if (last_name(given.item->target()) == "SimpleInferer")
        report.add(*given.item, "SimpleInferer", Fate::translated, "model");
      else
        missing(*given.item, "training shows the networks whole batches", true);
    }
  return true;
}

std::string Translator::batches(const Loader& data, const std::string& in,
                                const std::string& comment) {
  Json batch = {{"type", "batch"}, {"in", in}, {"size", data.batch_size * patches_}};
  if (data.drop_last) batch["drop_last"] = true;
  return add_node("batch", std::move(batch), comment);
}

// What the judge says of images, and the loss of that.
std::pair<Json, Json> Translator::asked(const Judging& term, const std::string& of,
                                        const std::string& output) {
  Json loss = term.loss;
  loss.update({{"key", "said"}, {"target_is_real", term.real}, {"output_key", output}});
  return {pass("judge", of, "said"), loss};
}

// An optimizer's step of one of the two networks; "" where there is none.
std::string Translator::step_of(const Item& trainer, const std::string& whose,
                                const std::string& in) {
  const Value given = values.of(trainer, whose + "_optimizer"),
              its = values.of(trainer, whose + "_network");
  if (!given.is(Value::Kind::object)) {
    missing(trainer, whose + "_optimizer: none", true);
    return "";
  }
  const Value params = values.of(*given.item, "params");
  if (params.is(Value::Kind::weights) && params.item->id != its.item->id)
    missing(*given.item, "its parameters are not those of this network", true);
  const std::size_t known = graph.nodes.size();
  optimizer(*given.item, in, whose == "g" ? "maker" : "judge");
  return graph.nodes.size() == known ? "" : graph.nodes.back().name;
}

// The judge's steps on each batch, of which "fakes" are made already; "" where it has no optimizer.
std::string Translator::judge_steps(const Item& trainer, const std::string& reals,
                                    const std::string& in) {
  Json step = Json::array(), keys = Json::array(), weights = Json::array();
  const Item& judge = *values.of(trainer, "d_network").item;
  for (const Judging& term : judging(trainer, "d_loss_function", judge, graph.models[1].body)) {
    const auto [ask, loss] =
        asked(term, term.of == "reals" ? reals : term.of, "loss_" + std::to_string(step.size()));
    step.push_back(ask);
    step.push_back(loss);
    keys.push_back(loss["output_key"]);
    weights.push_back(term.weight);
  }
  step.push_back({{"type", "sum_losses"}, {"keys", keys}, {"weights", weights}});
  if (step_of(trainer, "d", in).empty()) return "";
  Entry inner = graph.nodes.back();
  graph.nodes.pop_back();
  inner.body.erase("in");
  step.push_back(std::move(inner.body));
  const Json times = values.given(trainer, "d_train_steps")
                         ? values.of(trainer, "d_train_steps").json().value_or(Json())
                         : Json(1);
  return add_node(
      "judge_step",
      {{"type", "several_steps"}, {"in", in}, {"net", "judge"}, {"times", times}, {"step", step}},
      comment_of(trainer) + ": d_train_steps; " + inner.comment);
}

void Translator::gan(const Item& trainer) {
  report.add(trainer, "GanTrainer", Fate::translated, "the nodes of the graph");
  if (!opponents(trainer)) return;
  const Loader data =
      loader(values.of(trainer, "train_data_loader"), true, "train", {}, Json::object());
  if (data.last.empty()) return;
  std::string reals = "image";  // MONAI's default_prepare_batch
  for (const auto& item : data.transforms)
    if (const auto keys = values.of(*item, "keys").json();
        keys && (*keys == "reals" || *keys == Json::array({"reals"})))
      reals = "reals";
  const std::string comment = comment_of(trainer);
  Json latent = values.given(trainer, "latent_shape")
                    ? values.of(trainer, "latent_shape").json().value_or(Json())
                    : Json(64);
  if (!latent.is_array()) latent = Json::array({latent});
  const bool again = values.is_true(trainer, "g_update_latents", true);
  std::string last =
      add_node("latent", {{"type", "draw_latent"}, {"in", data.last}, {"shape", latent}}, comment);
  if (again)
    last = add_node("latent_again",
                    {{"type", "draw_latent"}, {"in", last}, {"shape", latent}, {"key", "again"}},
                    comment + ": g_update_latents");
  last = batches(data, last, "of the last, smaller batch as many are made");
  const auto behind = [&](const std::string& name, Json body, const std::string& why) {
    body["in"] = last;
    last = add_node(name, std::move(body), why);
  };
  behind("make", pass("maker", "latent", "fakes"), comment);
  const std::string judged = judge_steps(trainer, reals, last);
  if (judged.empty()) return;
  last = judged;

  // The maker's.
  if (again) behind("make_again", pass("maker", "again", "fakes"), comment + ": g_update_latents");
  const auto fooling = judging(trainer, "g_loss_function", *values.of(trainer, "d_network").item,
                               graph.models[1].body);
  if (fooling.size() == 1 && fooling[0].of == "fakes" && fooling[0].weight == 1) {
    auto [ask, loss] = asked(fooling[0], "fakes", "loss");
    loss.erase("output_key");
    behind("judged", ask, comment);
    behind("fooled", loss, comment);
    step_of(trainer, "g", last);
  } else if (!fooling.empty()) {
    missing(trainer, "g_loss_function: one loss of what the discriminator says is known", true);
  }
  if (const Value metric = values.of(trainer, "key_train_metric"); metric.is(Value::Kind::dict))
    missing(trainer, "key_train_metric: not measured", false);
  rest(trainer, "nothing here does what it says", true);
}

// ---- an autoencoder -----------------------------------------------------------------------------

// The node that compares features, and the network that sees them; null where that is not known.
Json Translator::perceptual(const Item& item) {
  const auto said = [&](const char* key) { return values.of(item, key); };
  const auto block = [&](const char* key, const std::string& why) {
    const ItemPtr given = item.find(key);
    report.add(given ? *given : item, std::string("PerceptualLoss.") + key, Fate::missing, why,
               true);
    return Json();
  };
  const std::string type = said("network_type").text();
  if (type != "resnet50")
    return block("network_type", "of its networks there is torchvision's: write --set " +
                                     shell_word(item.id + "#network_type=resnet50"));
  if (dims_ == 3 && !values.is_true(item, "is_fake_3d", true))
    return block("is_fake_3d", "volumes are compared slice by slice: write --set " +
                                   shell_word(item.id + "#is_fake_3d=true"));
  Json body = {{"type", "torchvision_features"}};
  const Value file = said("pretrained_path");
  const std::string how = "--set " + shell_word(item.id + "#pretrained_path=FILE") +
                          ", of torchvision's resnet50 by torch.save()";
  if (!values.is_true(item, "pretrained", true)) {
    report.add(
        item, "PerceptualLoss", Fate::translated,
        "perceptual_loss, of drawn weights as pretrained is false; for a file's write --set " +
            shell_word(item.id + "#pretrained=true") + " " + how);
  } else if (file.is_text() && !file.text().empty()) {
    body["weights"] = values.path(file.text());
    if (const Value key = said("pretrained_state_dict_key"); key.is_text())
      body["weights_key"] = key.text();
    body["partial"] = true;  // its last layer is not there
    report.add(item, "PerceptualLoss", Fate::translated, "perceptual_loss");
  } else {
    return block("pretrained_path", "nothing is loaded from elsewhere: write " + how);
  }
  said("pretrained_state_dict_key");
  graph.models.push_back({"features", std::move(body), comment_of(item)});
  Json loss = {{"type", "perceptual_loss"}, {"net", "features"}};
  if (const auto share = said("fake_3d_ratio").json(); share && share->is_number() && dims_ == 3)
    loss["fake_3d_ratio"] = *share;
  said("spatial_dims");  // the images'
  rest(item, "perceptual_loss has no such parameter", true);
  return loss;
}

// What an autoencoder learns by: losses of its image, its latent image, and what the judge says.
std::string Translator::learn(const Item& trainer, std::string last) {
  const std::string comment = comment_of(trainer) + ": g_loss_function";
  const Value given = values.of(trainer, "g_loss_function");
  const auto fooling = judging(trainer, "g_loss_function", *values.of(trainer, "d_network").item,
                               graph.models[1].body);
  const ScriptRow* row = known_script(config_.folder(), last_name(given.name));
  if (fooling.empty() || !row) return "";
  const Json weights = Json::parse(row->params);
  const auto [ask, fooled] = asked(fooling[0], "fakes", "fooled");
  const Value* features = given_as(given, "loss_perceptual");
  Json perceives =
      features && features->is(Value::Kind::object) ? perceptual(*features->item) : Json();
  if (perceives.is_null()) return "";
  Json keys = Json::array(), factors = Json::array();
  const auto add = [&](const std::string& name, Json body, const Json& factor) {
    body.update({{"in", last}, {"output_key", name}});
    last = add_node(name, std::move(body), comment);
    keys.push_back(name);
    factors.push_back(factor);
  };
  add("intensity", {{"type", "l1_loss"}, {"key", "fakes"}, {"label_key", "image"}}, 1);
  add("kl", {{"type", "gaussian_kl_loss"}, {"key", "mean"}, {"label_key", "deviation"}},
      weights["kl"]);
  perceives.update({{"key", "fakes"}, {"label_key", "image"}});
  add("perceived", std::move(perceives), weights["perceptual"]);
  Json judged = ask;
  judged["in"] = last;
  last = add_node("judged", std::move(judged), comment);
  add("fooled", fooled, fooling[0].weight);
  return add_node("loss",
                  {{"type", "sum_losses"}, {"in", last}, {"keys", keys}, {"weights", factors}},
                  comment);
}

void Translator::vae_gan(const Item& trainer, bool judge_first) {
  report.add(trainer, "VaeGanTrainer", Fate::translated,
             "the nodes of the graph; the script's text is known");
  if (!opponents(trainer)) return;
  if (graph.models[0].body["type"] != "autoencoder_kl")
    return missing(trainer, "its g_network is no AutoencoderKL", true);
  const Loader data =
      loader(values.of(trainer, "train_data_loader"), true, "train", {}, Json::object());
  if (data.last.empty()) return;
  const std::string comment = comment_of(trainer);
  Json make = pass("maker", "image", {"fakes", "mean", "deviation"});
  make["in"] = batches(data, data.last, comment);
  std::string last = add_node("make", std::move(make), comment);
  const auto step = [&](bool of_judge) {
    if (last.empty()) return;
    if (of_judge)
      last = judge_steps(trainer, "image", last);
    else if (const std::string loss = learn(trainer, last); loss.empty())
      last.clear();
    else
      last = step_of(trainer, "g", loss);
  };
  step(judge_first);
  step(!judge_first);
  // The script asks for none of these: what it makes images of is the image.
  for (const char* key : {"latent_shape", "g_update_latents"}) values.of(trainer, key);
  if (const Value metric = values.of(trainer, "key_train_metric"); metric.is(Value::Kind::dict))
    missing(trainer, "key_train_metric: not measured", false);
  rest(trainer, "nothing here does what it says", true);
}

}  // namespace sluice::bundle
