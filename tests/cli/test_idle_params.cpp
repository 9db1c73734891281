// What `check` says of an optimizer's parameters that its schedule does not read, of those that
// need another, and of epochs that a run does not have.
#include <doctest/doctest.h>

#include "tests/cli/tiny_training.h"
#include "tests/cli/types.h"
#include "tests/text.h"

using nlohmann::json;

namespace {

// The tiny training by sgd with further parameters, and what check says: "code path: message".
std::string said_of_step(const json& params, const json& more = json::object()) {
  json g = json::parse(tiny_training);
  g["nodes"]["step"] = {{"type", "sgd"}, {"in", "loss"}, {"net", "net"}};
  g["nodes"]["step"].update(params);
  g.merge_patch(more);
  std::string all;
  const sluice::Diagnostics found = types::check("g.json", g.dump(1));
  for (const auto& d : found.all()) {
    CHECK(d.place.mark().line > 1);
    all += d.code + " " + d.path + ": " + d.message + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("a parameter of another schedule than the chosen one is a warning at its place") {
  const std::pair<const char*, json> cases[] = {
      {"cosine", {{"total_steps", 3}, {"eta_min", 0.01}}},
      {"warmup_cosine", {{"cycles", 1.5}}},
      {"step", {{"step_size", 2}, {"gamma", 0.5}}},
      {"multi_step", {{"milestones", {1, 2}}}},
      {"polynomial", {{"power", 2}}},
      {"linear", {{"start_factor", 0.5}, {"end_factor", 0.1}}},
      {"cosine_annealing_warm_restarts", {{"T_0", 2}, {"T_mult", 2}}},
      {"one_cycle",
       {{"pct_start", 0.5},
        {"div_factor", 5},
        {"final_div_factor", 5},
        {"anneal_strategy", "linear"},
        {"cycle_momentum", false},
        {"base_momentum", 0.1},
        {"max_momentum", 0.2}}},
      {"cyclic", {{"step_size_up", 2}, {"step_size_down", 2}, {"cyclic_mode", "exp_range"}}},
      {"reduce_on_plateau",
       {{"metric", "dice.mean"},
        {"mode", "max"},
        {"factor", 0.5},
        {"patience", 1},
        {"threshold", 0.1},
        {"threshold_mode", "abs"},
        {"cooldown", 1},
        {"min_lr", 0.1}}}};
  for (const auto& [schedule, params] : cases) {
    CAPTURE(schedule);
    json chosen = params;
    chosen["lr_schedule"] = schedule;
    CHECK(said_of_step(chosen) == "");
    for (const auto& [name, value] : params.items())
      CHECK(said_of_step({{name, value}}) == "SL0318 nodes.step." + name + ": \"" + name +
                                                 "\" has no effect here: \"lr_schedule\" is "
                                                 "\"constant\"\n");
  }
  CHECK(said_of_step({{"eta_min", 0}, {"gamma", nullptr}}) == "");  // the defaults
  CHECK(contains(said_of_step({{"lr_schedule", "step"}, {"milestones", {1}}}), "milestones"));
}

TEST_CASE("a schedule without its milestones and nesterov without a momentum are refused") {
  CHECK(said_of_step({{"lr_schedule", "multi_step"}}) ==
        "SL0224 nodes.step.lr_schedule: \"lr_schedule\" multi_step needs \"milestones\"\n");
  CHECK(said_of_step({{"nesterov", true}}) ==
        "SL0224 nodes.step.nesterov: \"nesterov\" needs a \"momentum\" above 0\n");
  CHECK(said_of_step({{"nesterov", true}, {"momentum", 0.9}}) == "");
  CHECK(said_of_step({{"nesterov", true}, {"lr_schedule", "one_cycle"}}) == "");
  CHECK(contains(
      said_of_step({{"nesterov", true}, {"lr_schedule", "one_cycle"}, {"cycle_momentum", false}}),
      "needs a \"momentum\""));
}

TEST_CASE("what says that a parameter is read or needed is of its own type") {
  for (const auto& spec : types::real().all())
    for (const sluice::ParamSpec& p : spec->params) {
      CAPTURE(spec->name + "." + p.name);
      if (!p.use) continue;
      if (!p.use->reader.empty()) {
        const sluice::ParamSpec* reader = spec->find_param(p.use->reader);
        REQUIRE(reader);
        for (const std::string& value : p.use->read_at) CHECK(!reader->reject(value));
      }
      for (const std::string& other : p.use->needs) CHECK(spec->find_param(other));
    }
}

TEST_CASE("an epoch to begin with that the run does not have is a warning") {
  const auto from = [](int epoch) {
    return json{{"groups", {{{"match", "bias"}, {"from_epoch", epoch}}}}};
  };
  CHECK(said_of_step(from(1)) == "");
  CHECK(said_of_step(from(2)) ==
        "SL0318 nodes.step.groups.0.from_epoch: \"from_epoch\" is 2, counted from 0, and the run "
        "has 2 (run.epochs): these parameters stay frozen\n");
  const auto swa = [](int epoch) {
    json net = json::parse(tiny_training)["models"]["net"];
    return json{{"models", {{"mean", net}}},
                {"nodes",
                 {{"swa",
                   {{"type", "swa"},
                    {"in", "step"},
                    {"net", "mean"},
                    {"of", "net"},
                    {"from_epoch", epoch}}}}}};
  };
  CHECK(said_of_step(json::object(), swa(1)) == "");
  CHECK(
      contains(said_of_step(json::object(), swa(5)), "nodes.swa.from_epoch: \"from_epoch\" is 5"));
}

TEST_CASE("a run whose weights are all frozen says so") {
  const TinyTraining t;
  const auto r = t.run(
      R"(--set run.epochs=1 --set '+nodes.step.groups=[{"match": ".", "frozen": true}]' --out a)");
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK_MESSAGE(contains(r.err, "nodes.step.groups: network \"net\" stays as it is"), r.err);
  const auto later = t.run(
      R"(--set run.epochs=1 --set '+nodes.step.groups=[{"match": ".", "from_epoch": 1}]' --out b)");
  CHECK_MESSAGE(contains(later.err, "stays as it is"), later.err);
  CHECK_MESSAGE(contains(later.err, "these parameters stay frozen"), later.err);
}
