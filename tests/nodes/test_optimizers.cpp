// Optimizer nodes against torch 2.11 and MONAI 1.6.1 (tests/golden/make_train.py).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/warnings.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "kernels/optim/lr_schedule.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"
#include "tests/nodes/on_device.h"

using namespace sluice;

namespace {

// Parameters without a network: the loss is made by hand.
struct Weights final : Network {
  std::vector<at::Tensor> w{on_device(sines({3, 5}, 1)).requires_grad_(),
                            on_device(sines({4}, 40)).requires_grad_()};
  Tensors forward(const Tensors& x, std::size_t) override { return x; }
  Named parameters() const override { return {{"a.weight", w[0]}, {"b.weight", w[1]}}; }
  void initialise(std::uint64_t) override {}
};

struct Trainer {
  std::shared_ptr<Weights> net = std::make_shared<Weights>();
  std::unique_ptr<Driver> driver;

  Trainer() = default;
  Trainer(const std::string& type, Json params, std::uint32_t epochs = 1) {
    open(type, std::move(params), epochs);
  }
  void open(const std::string& type, Json params, std::uint32_t epochs = 1) {
    OpenContext context;
    context.epochs = epochs;
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", net);
    params["net"] = "net";
    driver = std::make_unique<Driver>(type, params, context);
  }
  Fired fire(const at::Tensor& loss, std::uint32_t epoch = 0) {
    return driver->fire({sample_of("loss", loss)}, at_index(0, epoch));
  }
  // A loss whose gradients are the golden script's for this step.
  Fired fire_step(int step, double scale = 1, std::uint32_t epoch = 0) {
    at::Tensor loss = on_device(at::zeros({}));
    for (int i = 0; i < 2; ++i)
      loss = loss +
             (net->w[i] * on_device(sines(net->w[i].sizes(), 7 * step + 3 * i, 0.5 * scale))).sum();
    return fire(loss, epoch);
  }
};

const char* const kinds[] = {"sgd",   "adam",     "adamw",   "adamax",  "nadam",
                             "radam", "novograd", "rmsprop", "adagrad", "adadelta",
                             "lion",  "lamb",     "asgd",    "lars"};

double metric(const std::vector<std::pair<std::string, double>>& list, const std::string& name) {
  for (const auto& [n, v] : list)
    if (n == name) return v;
  return std::nan("");
}

}  // namespace

TEST_CASE("four and two hundred steps give the weights that torch and MONAI give") {
  for (const auto& c : golden_cases("optimizers.json")) {
    CAPTURE(c["type"].dump());
    CAPTURE(c["params"].dump());
    Trainer t(c["type"], c["params"]);
    for (int step = 0; step < 200; ++step) {
      t.fire_step(step);
      const std::string after = "after_" + std::to_string(step + 1);
      if (!c.contains(after)) continue;
      for (int i = 0; i < 2; ++i) {
        const at::Tensor w = t.net->w[i].detach().cpu().flatten();
        for (std::int64_t k = 0; k < w.numel(); ++k) {
          const double expected = c[after][i][k];
          CHECK(std::abs(w[k].item<double>() - expected) <
                2e-6 * std::max(1.0, std::abs(expected)));
        }
      }
    }
  }
}

TEST_CASE("a step leaves no gradient behind") {
  Trainer t("novograd", {{"lr", 4e-4}});
  t.fire_step(0);
  for (const auto& w : t.net->w) CHECK(!w.grad().defined());
}

TEST_CASE("accumulated gradients equal one step with their mean, also for an epoch's rest") {
  for (int batches : {2, 4, 5}) {
    CAPTURE(batches);
    Trainer a("adam", {{"lr", 0.01}, {"grad_accumulation", 4}}), b("adam", {{"lr", 0.01}});
    at::Tensor loss_b = at::zeros({});
    for (int k = 0; k < batches; ++k) {
      a.fire_step(k);
      for (int i = 0; i < 2; ++i)
        loss_b = loss_b + (b.net->w[i] * sines(b.net->w[i].sizes(), 7 * k + 3 * i, 0.5)).sum() /
                              std::min(batches, 4);
      if (k == 3) {
        b.fire(loss_b);
        loss_b = at::zeros({});
      }
    }
    a.driver->flush();
    if (batches == 2) b.fire(loss_b);
    if (batches == 5) b.fire(loss_b * 4);
    for (int i = 0; i < 2; ++i) CHECK(at::allclose(a.net->w[i], b.net->w[i], 1e-5, 1e-6));
  }
}

TEST_CASE("clipping scales the gradient down to the given norm and leaves smaller ones alone") {
  for (double limit : {0.1, 100.0}) {
    Trainer t("sgd", {{"lr", 1.0}, {"clip_grad_norm", limit}});
    const at::Tensor before =
        at::cat({t.net->w[0].detach().flatten(), t.net->w[1].detach()}).clone();
    t.fire_step(1);
    const at::Tensor after = at::cat({t.net->w[0].detach().flatten(), t.net->w[1].detach()});
    const at::Tensor grad = at::cat({sines({15}, 7, 0.5), sines({4}, 10, 0.5)});
    const double expected = std::min(limit, grad.norm().item<double>());
    CHECK((before - after).norm().item<double>() == doctest::Approx(expected).epsilon(1e-4));
  }
}

TEST_CASE("the learning rate follows its schedule as torch's and MONAI's schedulers, by epoch") {
  for (const Json& c : golden_cases("schedules.json")) {
    CAPTURE(c["params"].dump());
    Json params = c["params"];
    params["lr"] = 0.1;
    Trainer t("sgd", params);
    for (std::size_t k = 0; k < c["rates"].size(); ++k)
      CHECK(metric(t.driver->flush(static_cast<std::uint32_t>(7 * k)), "lr") ==
            doctest::Approx(c["rates"][k].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("... and by step, where the weights move by the rate and the momentum of the time") {
  for (const Json& c : golden_cases("schedules.json")) {
    CAPTURE(c["params"].dump());
    Json params = c["params"];
    params["lr"] = 0.1;
    params["epoch_level"] = false;
    const bool cycles = c.contains("momenta");
    if (cycles) params["momentum"] = 0.9;
    Trainer t("sgd", params);
    double moved = 0;  // the last step's direction; the gradient is 1
    for (std::size_t step = 0; step < 7 * (c["rates"].size() - 1) + 1; ++step) {
      t.net->w[1].data().zero_();
      t.fire(t.net->w[1].sum());
      const double by = -t.net->w[1][0].item<double>();
      const double rate = metric(t.driver->flush(), "lr");
      if (step % 7 == 0) {
        CHECK(rate == doctest::Approx(c["rates"][step / 7].get<double>()).epsilon(1e-6));
        const double momentum = cycles ? c["momenta"][step / 7].get<double>() : 0;
        CHECK(std::abs(by - rate * (momentum * moved + 1)) < 1e-6);
      }
      moved = rate > 0 ? by / rate : 0;
    }
  }
}

TEST_CASE("a warm-up goes off a cycle's time, and a climb of no time is at its top") {
  const Json cycle{{"lr", 0.1}, {"lr_schedule", "one_cycle"}, {"total_steps", 20}};
  Json late = cycle, steep = cycle;
  late.update({{"warmup_steps", 5}, {"total_steps", 25}});
  Trainer now("sgd", cycle), then("sgd", late);
  kernels::LrSchedule s, shifted;
  s.kind = shifted.kind = kernels::Schedule::one_cycle;
  s.cycle_momentum = shifted.cycle_momentum = true;
  s.total = 20, shifted.total = 25, shifted.warmup = 5;
  for (std::uint32_t e = 0; e < 20; ++e) {
    CHECK(metric(now.driver->flush(e), "lr") == metric(then.driver->flush(e + 5), "lr"));
    CHECK(momentum_at(s, 0.9, e) == momentum_at(shifted, 0.9, e + 5));
  }
  CHECK(momentum_at(shifted, 0.9, 2) == 0.95);
  steep["pct_start"] = 0.05;
  Trainer t("sgd", steep);
  CHECK(metric(t.driver->flush(0), "lr") == 0.1);
  CHECK(metric(t.driver->flush(1), "lr") < 0.1);
}

TEST_CASE("a cycle's momentum is that of an optimizer without one too, as torch's") {
  const Json cycle{
      {"lr", 0.1}, {"lr_schedule", "one_cycle"}, {"total_steps", 6}, {"epoch_level", false}};
  for (const char* type : {"sgd", "rmsprop", "lars"}) {
    CAPTURE(type);
    Json without = cycle, with = cycle;
    without["momentum"] = 0, with["momentum"] = 0.5;
    Trainer a(type, without), b(type, with);
    for (int k = 0; k < 6; ++k) a.fire_step(k), b.fire_step(k);
    for (int i = 0; i < 2; ++i) CHECK(a.net->w[i].equal(b.net->w[i]));
  }
  CHECK_THROWS_WITH_AS(
      Trainer("adagrad", cycle),
      "cycle_momentum is of optimizers with a momentum or with betas: set it to false", Error);
}

TEST_CASE("a recorded step is repeated only at the rates of its own epoch, the groups' too") {
  // The schedule does not move the first rate, but that of the group.
  const Json params{{"lr", 0.02},
                    {"lr_schedule", "cosine"},
                    {"eta_min", 0.02},
                    {"total_steps", 9},
                    {"groups", {{{"match", "^a"}, {"lr", 0.1}}}}};
  Trainer t("adam", params), constant("adam", Json::object());
  const std::function<bool()> stopped = [] { return false; };
  const auto key = [&](Trainer& of, std::uint32_t epoch) {
    return *of.driver->node().recordable(Firing(at_index(0, epoch), 0, {}, stopped));
  };
  CHECK(key(t, 1) != key(t, 2));
  CHECK(key(t, 2) == key(t, 2));
  CHECK(key(constant, 1) == key(constant, 2));
  for (const bool epoch_level : {false, true}) {
    Trainer plateau("adam", {{"lr", 0.02},
                             {"lr_schedule", "reduce_on_plateau"},
                             {"epoch_level", epoch_level},
                             {"metric", "dice.mean"},
                             {"patience", 0},
                             {"min_lr", 0.02},
                             {"groups", {{{"match", "^a"}, {"lr", 0.1}}}}});
    const auto first = key(plateau, 1);
    for (int i = 0; i < 2; ++i) plateau.driver->node().observe({"dice.mean", 0.5, 0, 0, true});
    CHECK(key(plateau, 1) != first);
  }
}

TEST_CASE("without total_steps a schedule ends with the run's epochs") {
  Trainer t("sgd", {{"lr", 0.1}, {"lr_schedule", "cosine"}, {"eta_min", 0.02}}, 4);
  const double half[] = {1, 0.8535533906, 0.5, 0.1464466094};  // (1 + cos(pi e / 4)) / 2
  for (std::uint32_t e = 0; e < 4; ++e)
    CHECK(metric(t.driver->flush(e), "lr") == doctest::Approx(0.02 + 0.08 * half[e]));
}

TEST_CASE("on a plateau the learning rate falls as torch's does, also after a resume") {
  for (const Json& c : golden("schedules.json").at("plateaus")) {
    CAPTURE(c["params"].dump());
    Json params = c["params"];
    params["lr"] = 0.1;
    params["lr_schedule"] = "reduce_on_plateau";
    params["metric"] = "dice.mean";
    if (!params.contains("mode")) params["mode"] = "min";  // torch's default
    auto t = std::make_unique<Trainer>("sgd", params);
    for (std::size_t k = 0; k < c["values"].size(); ++k) {
      if (k == 17) {
        State state;
        t->driver->node().save(state);
        t = std::make_unique<Trainer>("sgd", params);
        t->driver->node().load(state);
      }
      Observation o{"dice.mean", c["values"][k], 0, static_cast<std::uint32_t>(k), true};
      t->driver->node().observe(o);
      o.name = "dice.other", o.value = 1e9;
      t->driver->node().observe(o);
      CHECK(metric(t->driver->flush(), "lr") ==
            doctest::Approx(c["rates"][k].get<double>()).epsilon(1e-9));
    }
  }
}

TEST_CASE("on a plateau no group's rate falls below min_lr, over a resume too") {
  const Json params = {
      {"lr", 0.1},
      {"lr_schedule", "reduce_on_plateau"},
      {"metric", "dice.mean"},
      {"patience", 0},
      {"min_lr", 0.03},
      {"groups", {{{"match", "^a"}, {"lr", 0.04}}, {{"match", "^b"}, {"lr", 0.02}}}}};
  // How far a step with gradients of 1 goes.
  const auto moved = [](Trainer& t) {
    const at::Tensor a = t.net->w[0].detach().clone(), b = t.net->w[1].detach().clone();
    t.fire(t.net->w[0].sum() + t.net->w[1].sum());
    return std::pair((a - t.net->w[0].detach()).mean().item<double>(),
                     (b - t.net->w[1].detach()).mean().item<double>());
  };
  Json other = params;
  other["groups"][1]["lr"] = 0.025;  // no rate of the checkpoint's
  Trainer t("sgd", params), resumed("sgd", params), changed("sgd", other);
  for (const double value : {0.5, 0.4, 0.3})  // no better: the rates fall twice
    t.driver->node().observe({"dice.mean", value, 0, 0, true});
  State state;
  t.driver->node().save(state);
  state.values = Json::parse(state.values.dump());
  resumed.driver->node().load(state);
  changed.driver->node().load(state);
  for (Trainer* of : {&t, &resumed, &changed}) {
    const auto [a, b] = moved(*of);
    CHECK(a == doctest::Approx(0.03).epsilon(1e-4));
    CHECK(b == doctest::Approx(of == &changed ? 0.025 : 0.02).epsilon(1e-4));  // is below min_lr
    CHECK(metric(of->driver->flush(), "lr") == doctest::Approx(0.03));
  }
}

TEST_CASE("a plateau compares no value with one of another metric, and keeps its rate") {
  Json params = {
      {"lr", 0.1}, {"lr_schedule", "reduce_on_plateau"}, {"metric", "dice.mean"}, {"patience", 0}};
  Trainer dice("sgd", params);
  for (const double value : {0.5, 0.4})  // no better: the rate falls once
    dice.driver->node().observe({"dice.mean", value, 0, 0, true});
  State state;
  dice.driver->node().save(state);
  params["metric"] = "step.loss";
  Trainer loss("sgd", params);
  loss.driver->node().load(state);
  for (const double value : {2.0, 1.5, 1.0})
    loss.driver->node().observe({"step.loss", value, 0, 0, true});
  CHECK(metric(loss.driver->flush(), "lr") == doctest::Approx(0.01));
}

TEST_CASE("a plateau is of a metric as that is better: of a loss less, of a Dice more") {
  for (const bool loss : {false, true}) {
    const std::string watched = loss ? "step.loss" : "dice.mean";
    Trainer t(
        "sgd",
        {{"lr", 0.1}, {"lr_schedule", "reduce_on_plateau"}, {"metric", watched}, {"patience", 0}});
    const auto rate_after = [&](double value) {
      t.driver->node().observe({watched, value, 0, 0, true});
      return metric(t.driver->flush(), "lr");
    };
    CHECK(rate_after(0.5) == 0.1);
    CHECK(rate_after(loss ? 0.4 : 0.6) == 0.1);
    CHECK(rate_after(0.5) == doctest::Approx(0.01));
  }
}

TEST_CASE("a schedule that cannot be is refused with what is missing") {
  const auto refusal = [](Json params) {
    try {
      Trainer t("sgd", std::move(params));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refusal({{"lr_schedule", "one_cycle"}, {"epoch_level", false}}).find("total_steps") !=
        std::string::npos);
  CHECK(refusal({{"lr_schedule", "cosine"}, {"warmup_steps", 5}, {"total_steps", 5}})
            .find("leaves nothing") != std::string::npos);
  CHECK(refusal({{"milestones", {3, 2}}}).find("ascend") != std::string::npos);
  CHECK(refusal({{"lr_schedule", "reduce_on_plateau"}}).find("\"metric\"") != std::string::npos);
  CHECK(refusal({{"momentum", 0.9}, {"nesterov", true}, {"dampening", 0.1}}).find("dampening") !=
        std::string::npos);
}

TEST_CASE("groups have their own rate and decay, and stay as they are while they are frozen") {
  const Json groups = {{{"match", "^a\\."}, {"lr_scale", 0.1}, {"weight_decay", 0}},
                       {{"match", "bias|b\\.weight"}, {"from_epoch", 1}}};
  Trainer t("adamw", {{"lr", 0.01}, {"weight_decay", 0.1}, {"groups", groups}});
  Trainer a("adamw", {{"lr", 0.001}, {"weight_decay", 0}}),
      b("adamw", {{"lr", 0.01}, {"weight_decay", 0.1}});
  const at::Tensor frozen = t.net->w[1].detach().clone();
  t.fire_step(0), a.fire_step(0);
  CHECK(t.net->w[0].equal(a.net->w[0]));
  CHECK(t.net->w[1].equal(frozen));
  for (const auto& w : t.net->w) CHECK_FALSE(w.grad().defined());
  t.fire(t.net->w[0].sum() + t.net->w[1].sum(), 1);
  CHECK_FALSE(t.net->w[1].equal(frozen));

  const Json decay = {{"lr", 0.01}, {"weight_decay", 0.1}, {"decay_norm_and_bias", false}};
  Trainer c("adamw", decay), without("adamw", {{"lr", 0.01}, {"weight_decay", 0}});
  c.fire_step(0), b.fire_step(0), without.fire_step(0);
  CHECK(c.net->w[0].equal(b.net->w[0]));        // two axes
  CHECK(c.net->w[1].equal(without.net->w[1]));  // one
}

TEST_CASE("a group that thaws later counts its own steps, over a resume too") {
  for (const char* type : kinds) {
    CAPTURE(type);
    Json params{{"lr", 0.01}};
    if (std::string(type) == "sgd") params.update({{"momentum", 0.9}, {"dampening", 0.3}});
    if (std::string(type) == "adagrad") params["lr_decay"] = 0.1;
    if (std::string(type) == "asgd") params.update({{"lambd", 0.1}, {"t0", 1}});
    if (std::string(type) == "radam") params["betas"] = {0.9, 0.8};
    Trainer fresh(type, params);
    params["groups"] = {{{"match", "^b"}, {"from_epoch", 2}}};
    Trainer t(type, params), resumed(type, params), older(type, params);
    for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
      for (int k = 0; k < 3; ++k) t.fire_step(k, 1, epoch);
      t.driver->flush(epoch);
    }
    const auto next = [&](int step) {
      fresh.fire_step(step);
      t.fire_step(step, 1, 2);
      CHECK(t.net->w[1].equal(fresh.net->w[1]));
    };
    next(6), next(7);
    State state;
    t.driver->node().save(state);
    resumed.driver->node().load(state);
    for (int i = 0; i < 2; ++i) resumed.net->w[i].data().copy_(t.net->w[i].data());
    next(8);
    resumed.fire_step(8, 1, 2);
    CHECK(resumed.net->w[1].equal(fresh.net->w[1]));
    state.values.erase("since");
    older.driver->node().load(state);
    older.fire_step(8, 1, 2);
    CHECK(older.net->w[1].isfinite().all().item<bool>());
  }
}

TEST_CASE("a group that is wrong is refused by its number") {
  const auto refusal = [](const Json& groups) {
    try {
      Trainer t("sgd", {{"groups", groups}});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::pair<Json, const char*> cases[] = {
      {{{{"mach", "a"}}}, "groups[0]: no key is called \"mach\"; did you mean \"match\"?"},
      {{{{"lr", 0.1}}}, "\"match\" is missing"},
      {{{{"match", "a"}}, {{"match", "a.weight"}}}, "groups[1]: a.weight is in groups[0] already"},
      {{{{"match", "encoder"}}}, "no parameter's name has \"encoder\"; the first is a.weight"},
      {{{{"match", "("}}}, "is no regular expression"},
      {{{{"match", "a"}, {"lr", "fast"}}}, "lr: expected float"},
      {{{{"match", "a"}, {"lr", 0.1}, {"lr_scale", 2}}}, "exclude each other"},
      {{3}, "expected an object"}};
  for (const auto& [groups, text] : cases) {
    INFO(refusal(groups));
    CHECK(refusal(groups).find(text) != std::string::npos);
  }
}

TEST_CASE(
    "clip_grad_value bounds each number of the gradient, and the norm before it is reported") {
  Trainer t("sgd", {{"lr", 1.0}, {"clip_grad_value", 0.3}});
  const at::Tensor before = t.net->w[0].detach().clone();
  t.fire_step(1);
  CHECK(
      at::allclose(before - t.net->w[0].detach(), sines({3, 5}, 7, 0.5).clamp(-0.3, 0.3), 0, 1e-6));
  const at::Tensor grad = at::cat({sines({15}, 7, 0.5), sines({4}, 10, 0.5)});
  CHECK(metric(t.driver->flush(), "grad_norm") == doctest::Approx(grad.norm().item<double>()));
}

TEST_CASE("novograd's second moment is of the bounded gradient") {
  for (const bool largest : {false, true}) {
    Json params{{"lr", 0.01}, {"amsgrad", largest}, {"weight_decay", 0.1}};
    Trainer given("novograd", params);
    params["clip_grad_value"] = 0.3;
    Trainer bounded("novograd", params);
    for (int k = 0; k < 4; ++k) {
      bounded.fire_step(k);
      at::Tensor loss = on_device(at::zeros({}));
      for (int i = 0; i < 2; ++i) {
        const at::Tensor& w = given.net->w[i];
        const at::Tensor g = sines(w.sizes(), 7 * k + 3 * i, 0.5).clamp(-0.3, 0.3);
        loss = loss + (w * on_device(g)).sum();
      }
      given.fire(loss);
    }
    for (int i = 0; i < 2; ++i) CHECK(at::allclose(given.net->w[i], bounded.net->w[i], 1e-5, 1e-6));
  }
}

TEST_CASE("an optimizer that is saved within an epoch goes on with its sums and its gradients") {
  const Json params = {{"lr", 0.01}, {"grad_accumulation", 3}};
  Trainer a("adam", params), b("adam", params);
  for (int k = 0; k < 4; ++k) a.fire_step(k);  // one step, and one batch of the next
  State state;
  a.driver->node().save(state);
  for (int i = 0; i < 2; ++i) b.net->w[i].data().copy_(a.net->w[i].data());
  b.driver->node().load(state);
  for (int k = 4; k < 7; ++k) a.fire_step(k), b.fire_step(k);
  const auto end_a = a.driver->flush(), end_b = b.driver->flush();
  CHECK(end_a == end_b);
  for (int i = 0; i < 2; ++i) CHECK(a.net->w[i].equal(b.net->w[i]));
}

TEST_CASE("a step whose batches are another number than before a resume is of their mean") {
  for (const int now : {1, 2, 3, 6}) {
    CAPTURE(now);
    Trainer a("adam", {{"lr", 0.01}, {"grad_accumulation", 4}}),
        b("adam", {{"lr", 0.01}, {"grad_accumulation", now}}),
        whole("adam", {{"lr", 0.01}, {"grad_accumulation", std::max(now, 4)}});
    for (int k = 0; k < 3; ++k) a.fire_step(k), whole.fire_step(k);
    State state;
    a.driver->node().save(state);
    b.driver->node().load(state);
    for (int k = 3; k < std::max(now, 4); ++k) b.fire_step(k), whole.fire_step(k);
    for (int i = 0; i < 2; ++i) {
      CHECK(at::allclose(b.net->w[i], whole.net->w[i], 1e-5, 1e-6));
      CHECK_FALSE(b.net->w[i].equal(Trainer("adam", {}).net->w[i]));  // a step was taken
    }
  }
}

TEST_CASE("a loss that is not finite stops with its batch's name") {
  Trainer t("adam", Json::object());
  const at::Tensor nan = t.net->w[0].sum() * std::numeric_limits<double>::quiet_NaN();
  try {
    t.fire(nan);
    FAIL("no exception");
  } catch (const Error& e) {
    CHECK(e.exit == Exit::non_finite);
    CHECK(std::string(e.what()).find("(case)") != std::string::npos);
  }
}

namespace {

// A finite loss whose gradient is not: the square root's slope at 0.
at::Tensor steep(const at::Tensor& w) { return (w - w.detach()).sqrt().sum(); }

}  // namespace

TEST_CASE("a gradient that is not finite stops with its parameter's name and changes nothing") {
  for (const char* type : kinds) {
    CAPTURE(type);
    Trainer t(type, Json::object());
    const at::Tensor before = t.net->w[1].detach().clone();
    try {
      t.fire(t.net->w[0].sum() + steep(t.net->w[1]));
      FAIL("no exception");
    } catch (const Error& e) {
      CHECK(e.exit == Exit::non_finite);
      CHECK(std::string(e.what()).find("gradient of b.weight") != std::string::npos);
      CHECK(std::string(e.what()).find("(case)") != std::string::npos);
    }
    CHECK(t.net->w[1].equal(before));
  }
}

TEST_CASE("with a loss scale, an overflowing step is left out, counted, and halves the scale") {
  for (const char* type : kinds) {
    CAPTURE(type);
    const Json params = {{"loss_scale", "dynamic"}, {"init_scale", 1024}, {"growth_interval", 3}};
    Trainer a(type, params), b(type, Json::object());
    const auto scale = [&] { return metric(a.driver->flush(), "loss_scale"); };
    a.fire(a.net->w[0].sum() + steep(a.net->w[1]));  // leaves moments and step count alone
    CHECK(scale() == 512);
    for (int k = 0; k < 3; ++k) {
      a.fire_step(k);
      b.fire_step(k);
    }
    CHECK(scale() == 1024);
    CHECK(metric(a.driver->flush(), "skipped_steps") == 1);
    // Powers of two scale exactly, so the steps are those without a scale.
    for (int i = 0; i < 2; ++i) CHECK(a.net->w[i].equal(b.net->w[i]));
  }
}

TEST_CASE("the loss scale and its count of good steps are saved, and clipping is of the unscaled") {
  const Json params = {{"loss_scale", "dynamic"}, {"growth_interval", 2}, {"clip_grad_norm", 0.1}};
  Trainer a("adam", params), b("adam", params), plain("adam", {{"clip_grad_norm", 0.1}});
  for (int k = 0; k < 3; ++k) a.fire_step(k), plain.fire_step(k);
  for (int i = 0; i < 2; ++i) CHECK(at::allclose(a.net->w[i], plain.net->w[i], 1e-6, 1e-7));
  State state;
  a.driver->node().save(state);
  CHECK(state.values["scaler"]["scale"] == 2 * 65536);
  CHECK(state.values["scaler"]["growth_tracker"] == 1);
  b.driver->node().load(state);
  b.fire_step(3);
  CHECK(metric(b.driver->flush(), "loss_scale") == 4 * 65536);
}

TEST_CASE("weights of another type take the same steps") {
  for (const char* type : kinds) {
    CAPTURE(type);
    Json params = {{"lr", 0.01}, {"weight_decay", 0.1}};
    if (std::string(type) == "sgd") params["momentum"] = 0.9;
    if (std::string(type).starts_with("adam") && std::string(type) != "adamax")
      params["amsgrad"] = true;
    Trainer a(type, params), b;
    for (auto& w : b.net->w) w = w.detach().to(at::kDouble).requires_grad_();
    b.open(type, params);
    for (int k = 0; k < 4; ++k) a.fire_step(k), b.fire_step(k);
    for (int i = 0; i < 2; ++i)
      CHECK(at::allclose(a.net->w[i].to(at::kDouble), b.net->w[i], 1e-5, 1e-6));
  }
}

TEST_CASE("flush reports the epoch's mean loss and starts anew") {
  Trainer t("sgd", {{"lr", 0.0}});
  const auto fired = t.fire(t.net->w[0].sum() * 0 + 3);
  CHECK(metric(fired.logs, "loss") == 3);
  t.fire(t.net->w[0].sum() * 0 + 5);
  CHECK(metric(t.driver->flush(), "loss") == 4);
  CHECK(std::isnan(metric(t.driver->flush(), "loss")));
}

TEST_CASE("a loaded state takes the same next step, bit for bit") {
  for (const char* type : kinds) {
    CAPTURE(type);
    Json params = {{"lr", 0.01}};
    if (std::string(type) == "sgd") params["momentum"] = 0.9;
    Trainer a(type, params), b(type, params);
    for (int k = 0; k < 3; ++k) a.fire_step(k);
    State state;
    a.driver->node().save(state);
    b.driver->node().load(state);
    for (int i = 0; i < 2; ++i) b.net->w[i].data().copy_(a.net->w[i].data());
    a.fire_step(3);
    b.fire_step(3);
    for (int i = 0; i < 2; ++i) CHECK(a.net->w[i].equal(b.net->w[i]));
  }
}

TEST_CASE("A loss that comes through another network leaves that one's gradients alone") {
  Trainer maker("sgd", {{"lr", 0.1}}), judge("sgd", {{"lr", 0.1}});
  const auto before = judge.net->w[0].clone();
  forget_warnings();
  // What the maker makes goes through the judge's weights.
  const auto said = [&] { return (maker.net->w[0] * judge.net->w[0]).sum(); };
  maker.fire(said());
  CHECK_FALSE(judge.net->w[0].grad().defined());
  CHECK(at::equal(judge.net->w[0], before));
  // The judge learns from its own loss; what was made is a number to it, its maker's pass is over.
  const at::Tensor made = maker.net->w[0] * 2, through = (made * judge.net->w[0]).sum();
  judge.fire(through);
  CHECK(at::allclose(judge.net->w[0], before - 0.1 * made.detach()));
  CHECK_FALSE(maker.net->w[0].grad().defined());
  CHECK(warnings().empty());
}

TEST_CASE("A loss that the network has no part in is said, but not of frozen weights") {
  const Json later{{"match", "."}, {"from_epoch", 1}};
  Trainer t("sgd", {{"lr", 0.1}, {"groups", Json::array({later})}}, 2);
  const at::Tensor other = on_device(at::ones({3})).requires_grad_();
  forget_warnings();
  t.fire(other.sum());
  CHECK(warnings().empty());
  t.fire(other.sum(), 1);
  REQUIRE(warnings().size() == 1);
  CHECK(warnings()[0].ends_with(
      "the loss does not depend on what is trained of network \"net\", which stays as it is"));
}
