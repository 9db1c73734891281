// several_steps: k steps of a discriminator for one of its generator, beside the formulas of
// MONAI's GanTrainer written out.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/run_graph.h"

using namespace sluice;

namespace {

// Says a number for each number: so many times it.
struct Factor final : Network {
  at::Tensor w;
  explicit Factor(double value) : w(at::full({1}, value, at::kFloat).requires_grad_()) {}
  Tensors forward(const Tensors& x, std::size_t) override { return {x[0] * w}; }
  Named parameters() const override { return {{"w", w}}; }
  void initialise(std::uint64_t) override {}
  double now() const { return w.detach().item<double>(); }
};

struct Two {
  std::shared_ptr<Factor> maker = std::make_shared<Factor>(0.5);
  std::shared_ptr<Factor> judge = std::make_shared<Factor>(0.8);
  OpenContext context;
  Two() {
    context.training = true;
    context.resources = std::make_shared<Resources>();
    context.resources->add("maker", maker);
    context.resources->add("judge", judge);
  }
  Driver open(const std::string& type, const Json& params) { return Driver(type, params, context); }
};

const Json to_zero = {{{"type", "model"}, {"net", "judge"}},
                      {{"type", "mse_loss"}},
                      {{"type", "sgd"}, {"net", "judge"}, {"lr", 0.1}}};

Json several(std::int64_t times, const Json& step = to_zero) {
  return {{"net", "judge"}, {"times", times}, {"step", step}};
}

// A one whose answer should be 0: the weight shrinks by a fifth a step.
Sample one() {
  Sample sample = sample_of("image", at::ones({1, 1}));
  sample.set("label", Field(at::zeros({1, 1}), std::make_shared<const Meta>()));
  return sample;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("k steps see the same batch, each with the weights that the one before has left") {
  Two t;
  Driver node = t.open("several_steps", several(5));
  const Fired fired = node.fire({one()});
  CHECK(t.judge->now() == doctest::Approx(0.8 * std::pow(0.8, 5)).epsilon(1e-6));
  REQUIRE(fired.logs.size() == 5);
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(fired.logs[k].first == "loss");
    CHECK(fired.logs[k].second ==
          doctest::Approx(std::pow(0.8 * std::pow(0.8, k), 2)).epsilon(1e-6));
  }
  const Sample out = fired.samples().at(0);
  CHECK(out.fields().size() == 2);  // what the step's nodes made is gone
  CHECK_FALSE(out.find("pred"));
  double mean = 0;
  for (const auto& [name, value] : fired.logs) mean += value / 5;
  for (const auto& [name, value] : node.flush())
    if (name == "loss") CHECK(value == doctest::Approx(mean).epsilon(1e-6));
}

TEST_CASE("one step of several is that of the nodes one by one, to the bit") {
  Two alone, together;
  Driver model = alone.open("model", Json{{"net", "judge"}}),
         loss = alone.open("mse_loss", Json::object()),
         step = alone.open("adam", {{"net", "judge"}, {"lr", 0.1}});
  Driver node = together.open(
      "several_steps",
      several(3, {to_zero[0], to_zero[1], {{"type", "adam"}, {"net", "judge"}, {"lr", 0.1}}}));
  for (int k = 0; k < 3; ++k)
    step.fire({loss.fire({model.fire({one()}).samples().at(0)}).samples().at(0)});
  node.fire({one()});
  CHECK(together.judge->now() == alone.judge->now());
}

TEST_CASE("GanTrainer's iteration: k steps of the judge on what was made, then one of the maker") {
  const double z = 1.5, real = 2, lr = 0.25;
  for (const std::int64_t times : {1, 3, 5}) {
    CAPTURE(times);
    Two t;
    const auto said = [](const char* of, bool is_real, const char* output) {
      return Json{{{"type", "model"}, {"net", "judge"}, {"keys", of}, {"output_keys", "said"}},
                  {{"type", "patch_adversarial_loss"},
                   {"key", "said"},
                   {"criterion", "bce"},
                   {"target_is_real", is_real},
                   {"output_key", output}}};
    };
    Json judging = said("made", false, "no");
    for (const Json& one : said("image", true, "yes")) judging.push_back(one);
    judging.push_back({{"type", "sum_losses"}, {"keys", {"no", "yes"}}, {"weights", {0.5, 0.5}}});
    judging.push_back({{"type", "sgd"}, {"net", "judge"}, {"lr", lr}});
    Driver make = t.open("model", {{"net", "maker"}, {"keys", "latent"}, {"output_keys", "made"}}),
           judge = t.open("several_steps", several(times, judging)),
           ask = t.open("model", {{"net", "judge"}, {"keys", "made"}, {"output_keys", "said"}}),
           fool = t.open("patch_adversarial_loss", {{"key", "said"}, {"criterion", "bce"}}),
           step = t.open("sgd", {{"net", "maker"}, {"lr", lr}});
    double g = 0.5, d = 0.8;
    for (int batch = 0; batch < 4; ++batch) {
      Sample in = sample_of("image", at::full({1, 1}, real));
      in.set("latent", Field(at::full({1, 1}, z), std::make_shared<const Meta>()));
      const auto of = [](Fired fired) { return fired.samples().at(0); };
      step.fire({of(fool.fire({of(ask.fire({of(judge.fire({of(make.fire({in}))}))}))}))});
      const double made = g * z;  // before any step of this batch
      for (std::int64_t k = 0; k < times; ++k)
        d -= lr * 0.5 * (sigmoid(d * made) * made + (sigmoid(d * real) - 1) * real);
      g -= lr * (sigmoid(d * made) - 1) * d * z;
      CHECK(t.judge->now() == doctest::Approx(d).epsilon(1e-5));
      CHECK(t.maker->now() == doctest::Approx(g).epsilon(1e-5));
      CHECK_FALSE(t.judge->w.grad().defined());
      CHECK_FALSE(t.maker->w.grad().defined());
    }
  }
}

TEST_CASE("several steps go on where they were saved, and not with another optimizer's state") {
  const auto step = [](const char* type) {
    return several(3, {to_zero[0], to_zero[1], {{"type", type}, {"net", "judge"}, {"lr", 0.1}}});
  };
  Two whole, first, second;
  Driver all = whole.open("several_steps", step("adam"));
  all.fire({one()}, at_index(0));
  all.fire({one()}, at_index(1));
  Driver begin = first.open("several_steps", step("adam"));
  begin.fire({one()}, at_index(0));
  State state;
  begin.node().save(state);
  Driver rest = second.open("several_steps", step("adam"));
  second.judge->w.data().copy_(first.judge->w);
  rest.node().load(state);
  rest.fire({one()}, at_index(1));
  CHECK(second.judge->now() == whole.judge->now());
  Driver other = second.open("several_steps", step("sgd"));
  CHECK_THROWS_WITH_AS(other.node().load(state), doctest::Contains("of the optimizer \"adam\""),
                       DataError);
}

TEST_CASE("what goes wrong within a step says of which node it is") {
  Two t;
  Driver node =
      t.open("several_steps",
             several(2, {to_zero[0], {{"type", "mse_loss"}, {"label_key", "truth"}}, to_zero[2]}));
  CHECK_THROWS_WITH_AS(node.fire({one()}), doctest::Contains("\"mse_loss\" of the step: no field"),
                       DataError);
}

TEST_CASE(
    "a node of the step that works on host memory is refused where the batch is on a device") {
  Two t;
  Driver node =
      t.open("several_steps", several(1, {to_zero[0],
                                          to_zero[1],
                                          {{"type", "add_constant"}, {"key", "k"}, {"value", 1}},
                                          to_zero[2]}));
  CHECK_THROWS_WITH_AS(LateFiring(node, one()), doctest::Contains("works on host memory"), Error);
  CHECK(node.fire({one()}).logs.size() == 1);
}

TEST_CASE("a step that is none is refused before the run") {
  Two t;
  const auto refused = [&](const Json& step, const char* why) {
    CHECK_THROWS_WITH_AS(t.open("several_steps", several(2, step)), doctest::Contains(why), Error);
  };
  refused(Json::array(), "expected a list of nodes");
  refused({to_zero[0], to_zero[1]}, "its last node, \"mse_loss\", updates no network");
  refused({to_zero[2], to_zero[0], to_zero[2]}, "updates a network before the last node");
  refused({{{"type", "model"}, {"net", "maker"}}, to_zero[1], to_zero[2]},
          "\"model\" names the network \"maker\"");
  refused({to_zero[0], {{"type", "cache"}}, to_zero[2]}, "cannot stand inside a node");
  refused(Json::array({to_zero}), "found a list of 3");
  refused({to_zero[0], to_zero[1], "sgd"}, "cannot stand inside a node");
  Json inside = several(2);
  inside["type"] = "several_steps";
  refused(Json::array({inside}), "cannot stand inside a node");
  Json waits = to_zero;
  waits[2]["lr_schedule"] = "reduce_on_plateau";
  refused(waits, "reduce_on_plateau");
}

TEST_CASE("check reads a step's nodes as those of the graph") {
  const Json graph = {
      {"run", {{"epochs", 2}}},
      {"models",
       {{"judge",
         {{"type", "discriminator"},
          {"in_shape", {1, 8, 8}},
          {"channels", {2, 1}},
          {"strides", {2, 2}},
          {"last_act", nullptr}}}}},
      {"nodes",
       {{"noise", {{"type", "noise"}, {"num_samples", 4}, {"shape", {1, 8, 8}}, {"key", "image"}}},
        {"batch", {{"type", "batch"}, {"in", "noise"}, {"size", 2}}},
        {"steps",
         {{"type", "several_steps"},
          {"in", "batch"},
          {"net", "judge"},
          {"times", 3},
          {"step",
           {{{"type", "model"}, {"net", "judge"}},
            {{"type", "patch_adversarial_loss"}, {"criterion", "bce"}},
            {{"type", "adam"}, {"net", "judge"}}}}}}}}};
  const auto wrong = [&](const Json& changed) {
    Diagnostics diagnostics;
    const auto g = load_graph(parse_document("test.json", changed.dump(), diagnostics),
                              with_collect(), {}, diagnostics);
    if (g) make_plan(*g, {2}, diagnostics);
    return diagnostics.to_json().dump();
  };
  CHECK(wrong(graph) == "[]");
  const auto with = [&](const char* at, const Json& value) {
    Json changed = graph;
    changed[Json::json_pointer(at)] = value;
    return wrong(changed);
  };
  const auto holds = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  holds(with("/nodes/steps/step/2/net", "jugde"), "jugde");
  holds(with("/nodes/steps/step/2/type", "mse_loss"), "updates no network");
  holds(with("/nodes/steps/step/2/type", "mse_loss"), "\"nodes.steps.step.2\"");  // the place
  holds(with("/nodes/steps/step", Json::array({graph["nodes"]["steps"]["step"]})),
        "found a list of 3");
  holds(with("/nodes/steps/step/1", {{"type", "cache"}}), "expected a node of a step");
  holds(with("/nodes/steps/step/2/lr", "fast"), "expected float");
  holds(with("/nodes/steps/times", 0), "expected 1 to 1000");
  Json shards = graph;
  shards["run"].update({{"shards", 2}, {"step_threads", 1}});
  holds(wrong(shards), "takes several steps of a batch");
  // A pass through the judge for the maker's step may stand behind the judge's.
  Json both = graph;
  both["models"]["maker"] = {{"type", "generator"},
                             {"latent_shape", {4}},
                             {"start_shape", {2, 4, 4}},
                             {"channels", {2, 1}},
                             {"strides", {2, 1}}};
  both["nodes"]["latent"] = {{"type", "draw_latent"}, {"in", "noise"}, {"shape", {4}}};
  both["nodes"]["batch"]["in"] = "latent";
  const auto pass = [](const char* in, const char* net, const char* from, const char* to) {
    return Json{{"type", "model"}, {"in", in}, {"net", net}, {"keys", from}, {"output_keys", to}};
  };
  both["nodes"]["make"] = pass("batch", "maker", "latent", "made");
  both["nodes"]["steps"]["in"] = "make";
  both["nodes"]["judged"] = pass("steps", "judge", "made", "said");
  both["nodes"]["fooled"] = {
      {"type", "patch_adversarial_loss"}, {"in", "judged"}, {"key", "said"}, {"criterion", "bce"}};
  both["nodes"]["step"] = {{"type", "adam"}, {"in", "fooled"}, {"net", "maker"}};
  CHECK(wrong(both) == "[]");
}
