// GanTrainer: two networks against each other.
//
//   latents ─ make ─ judge_step (d_train_steps times) ─(make again)─ judged ─ fooled ─ step
#include <algorithm>

#include "tools/runtime/bundle/translate.h"

namespace sluice::bundle {

namespace {

std::optional<double> number_of(const Expr& e) {
  if (e.kind == Expr::Kind::constant && e.value.is_number()) return e.value.get<double>();
  return {};
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
  const bool of_this = given.entries.size() == 1 && given.entries[0].first == "disc_net" &&
                       given.entries[0].second.is(Value::Kind::object) &&
                       given.entries[0].second.item->id == judge.id;
  if (row && row->type == "patch_adversarial_loss" && of_this &&
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

void Translator::gan(const Item& trainer) {
  report.add(trainer, "GanTrainer", Fate::translated, "the nodes of the graph");
  const Value maker = values.of(trainer, "g_network"), judge = values.of(trainer, "d_network");
  network(maker, "maker");
  network(judge, "judge");
  if (graph.models.size() != 2) return;
  Json &maker_body = graph.models[0].body, &judge_body = graph.models[1].body;
  if (const Json shape = judge_body.value("in_shape", Json()); shape.is_array())
    dims_ = static_cast<int>(shape.size()) - 1;
  look_at_appended(*maker.item, maker_body);
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
  Json batch = {{"type", "batch"}, {"in", last}, {"size", data.batch_size * patches_}};
  if (data.drop_last) batch["drop_last"] = true;
  last = add_node("batch", std::move(batch), "of the last, smaller batch as many are made");
  const auto pass = [](const char* net, const std::string& key, const std::string& to) {
    return Json{{"type", "model"}, {"net", net}, {"keys", key}, {"output_keys", to}};
  };
  const auto behind = [&](const std::string& name, Json body, const std::string& why) {
    body["in"] = last;
    last = add_node(name, std::move(body), why);
  };
  behind("make", pass("maker", "latent", "fakes"), comment);

  // The judge's steps.
  Json step = Json::array(), keys = Json::array(), weights = Json::array();
  const auto said = [&](const Judging& term, const std::string& of, std::size_t number) {
    Json loss = term.loss;
    loss.update({{"key", "said"},
                 {"target_is_real", term.real},
                 {"output_key", "loss_" + std::to_string(number)}});
    return std::pair{pass("judge", of, "said"), loss};
  };
  for (const Judging& term : judging(trainer, "d_loss_function", *judge.item, judge_body)) {
    const auto [ask, loss] = said(term, term.of == "reals" ? reals : term.of, step.size());
    step.push_back(ask);
    step.push_back(loss);
    keys.push_back(loss["output_key"]);
    weights.push_back(term.weight);
  }
  step.push_back({{"type", "sum_losses"}, {"keys", keys}, {"weights", weights}});
  const auto stepper = [&](const char* key, const Item& network, const char* net) {
    const Value given = values.of(trainer, key);
    if (!given.is(Value::Kind::object)) return missing(trainer, std::string(key) + ": none", true);
    const Value params = values.of(*given.item, "params");
    if (params.is(Value::Kind::weights) && params.item->id != network.id)
      missing(*given.item, "its parameters are not those of this network", true);
    optimizer(*given.item, last, net);
  };
  const std::size_t known = graph.nodes.size();
  stepper("d_optimizer", *judge.item, "judge");
  if (graph.nodes.size() == known) return;
  Json inner = graph.nodes.back().body;
  const std::string of_inner = graph.nodes.back().comment;
  graph.nodes.resize(known);
  inner.erase("in");
  step.push_back(std::move(inner));
  const Json times = values.given(trainer, "d_train_steps")
                         ? values.of(trainer, "d_train_steps").json().value_or(Json())
                         : Json(1);
  behind("judge_step",
         {{"type", "several_steps"}, {"net", "judge"}, {"times", times}, {"step", step}},
         comment + ": d_train_steps; " + of_inner);

  // The maker's.
  if (again) behind("make_again", pass("maker", "again", "fakes"), comment + ": g_update_latents");
  const auto fooling = judging(trainer, "g_loss_function", *judge.item, judge_body);
  if (fooling.size() == 1 && fooling[0].of == "fakes" && fooling[0].weight == 1) {
    auto [ask, loss] = said(fooling[0], "fakes", 0);
    loss.erase("output_key");
    behind("judged", ask, comment);
    behind("fooled", loss, comment);
    stepper("g_optimizer", *maker.item, "maker");
  } else if (!fooling.empty()) {
    missing(trainer, "g_loss_function: one loss of what the discriminator says is known", true);
  }
  if (const Value metric = values.of(trainer, "key_train_metric"); metric.is(Value::Kind::dict))
    missing(trainer, "key_train_metric: not measured", false);
  rest(trainer, "nothing here does what it says", true);
}

}  // namespace sluice::bundle
