#include <doctest/doctest.h>

#include "tests/engine/toy_graph.h"
#include "tools/live/pace.h"
#include "tools/live/rows.h"

using namespace sluice;
using live::Pace;

namespace {

const char* const text = R"({
  "run": { "epochs": 5 },
  "models": { "net": { "type": "unet" } },
  "nodes": {
    "train": { "type": "cases", "root": "x" },
    "crop":  { "type": "crop", "in": "train", "num_samples": 2 },
    "batch": { "type": "batch", "in": "crop", "size": 8 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "step":  { "type": "adam", "in": "fwd", "net": "net" },
    "val":   { "type": "cases", "root": "x", "after": "step" },
    "infer": { "type": "sliding_window", "in": "val", "net": "net" },
    "dice":  { "type": "dice", "in": "infer" } } })";

// A run of 5 epochs of 160 samples at 40 a second (batches of 4 samples: 10 a second), each
// followed by 20 validation volumes at 10 a second: 4 s and 2 s.
struct Run {
  toys::Loaded loaded = toys::load(text);
  std::optional<Plan> plan;
  std::vector<Reading> now;
  std::optional<Pace> pace;
  double time = 0;

  explicit Run(std::vector<std::optional<std::uint64_t>> sizes = {160, 20}) {
    REQUIRE(loaded.graph);
    plan = make_plan(*loaded.graph, PlanOptions{}, loaded.diagnostics);
    REQUIRE_MESSAGE(plan, toys::faults(loaded.diagnostics));
    now.resize(plan->nodes.size());
    pace.emplace(*plan, Threads{2, 2, 2}, std::move(sizes));
  }
  Reading& at(const char* path) { return now[static_cast<std::size_t>(loaded.graph->find(path))]; }
  void to(double end) {  // five readings a second
    while (time < end - 1e-9) {
      time += 0.2;
      const auto epoch = static_cast<std::uint32_t>(time / 6 + 1e-9);
      const double in = time - 6.0 * epoch;
      const bool validates = in >= 4 - 1e-9;
      Reading &step = at("step"), &dice = at("dice");
      step.fired = epoch * 40 + static_cast<std::uint64_t>(std::min(in, 4.0) * 10 + 1e-6);
      dice.fired = epoch * 20 + static_cast<std::uint64_t>(std::max(in - 4, 0.0) * 10 + 1e-6);
      step.epoch = epoch + (validates ? 1 : 0);
      step.epoch_done = validates ? 0 : step.fired - epoch * 40;
      step.epoch_size = step.epoch > 0 ? 40 : -1;
      dice.epoch = epoch;
      dice.epoch_done = dice.fired - epoch * 20;
      dice.epoch_size = epoch > 0 ? 20 : -1;
      at("fwd").busy_ns = static_cast<std::int64_t>(time * 0.9e9);
      for (Reading& r : now) r.at_ns = 7'000'000'000 + static_cast<std::int64_t>(time * 1e9);
      pace->add(now, Turn{validates ? 1 : 0, epoch, epoch});
    }
  }
};

}  // namespace

TEST_CASE("nothing is said of rate and time in the first moments") {
  Run r;
  CHECK(!r.pace->share());
  CHECK(!r.pace->rate());
  CHECK(!r.pace->eta_s());
  CHECK(r.pace->recent(5).nodes.empty());
  r.to(0.4);
  CHECK(!r.pace->rate());
  CHECK(!r.pace->eta_s());
  CHECK(r.pace->epoch() == 0);
  CHECK(r.pace->share() == doctest::Approx(0.4 / 4));
}

TEST_CASE("the rate is in samples of the source and the share that of the epoch") {
  Run r;
  r.to(3);
  CHECK(*r.pace->rate() == doctest::Approx(40).epsilon(0.02));
  CHECK(*r.pace->share() == doctest::Approx(0.75));
  CHECK(!r.pace->validating());
}

TEST_CASE("steps of most of a minute have a rate and an end too") {
  Run r({160, 20});
  for (int s = 0; s <= 400; ++s) {
    Reading& step = r.at("step");
    step.fired = step.epoch_done = static_cast<std::uint64_t>(s / 40);
    for (Reading& each : r.now) each.at_ns = (1 + s) * std::int64_t{1'000'000'000};
    r.pace->add(r.now, Turn{0, 0, 0});
  }
  REQUIRE(r.pace->rate());
  CHECK(*r.pace->rate() == doctest::Approx(0.1).epsilon(0.25));  // 4 samples in 40 s
  REQUIRE(r.pace->eta_s());
  // 5 epochs of 160 and of 20 samples, of which 40 are done.
  CHECK(*r.pace->eta_s() == doctest::Approx(860 / 0.1).epsilon(0.3));
}

TEST_CASE("validation has its own rate and share, and does not slow training's") {
  Run r;
  r.to(11);  // the second epoch's validation, half done
  CHECK(r.pace->validating());
  CHECK(r.pace->epoch() == 1);
  CHECK(*r.pace->share() == doctest::Approx(0.5));
  CHECK(*r.pace->rate() == doctest::Approx(10).epsilon(0.1));
  r.to(14);
  CHECK(!r.pace->validating());
  CHECK(*r.pace->rate() == doctest::Approx(40).epsilon(0.1));
}

TEST_CASE("the time left counts training and validation that are still to come") {
  Run r;
  r.to(3);  // no validation yet: it is taken to be as quick as training
  CHECK(*r.pace->eta_s() == doctest::Approx(1 + 4 * 4 + 5 * 0.5).epsilon(0.05));
  r.to(20);  // 30 s in all
  CHECK(*r.pace->eta_s() == doctest::Approx(10).epsilon(0.1));
  r.to(29);
  CHECK(*r.pace->eta_s() == doctest::Approx(1).epsilon(0.2));
}

TEST_CASE("the length of an epoch is learnt where the source does not know it") {
  Run r({std::nullopt, std::nullopt});
  r.to(3);
  CHECK(!r.pace->share());
  CHECK(!r.pace->eta_s());
  CHECK(r.pace->rate());
  r.to(8);
  CHECK(*r.pace->share() == doctest::Approx(0.5));
  CHECK(r.pace->eta_s());
}

TEST_CASE("busy is that of the last seconds, not of the whole run") {
  Run r;
  r.to(20);
  const auto fwd = static_cast<std::size_t>(r.loaded.graph->find("fwd"));
  for (int i = 0; i < 30; ++i) {  // it stops working
    for (Reading& x : r.now) x.at_ns += 200'000'000;
    r.pace->add(r.now, Turn{0, 3, 3});
  }
  CHECK(r.pace->recent(3).nodes[fwd].busy == doctest::Approx(0));
  CHECK(r.pace->recent(3).wall_s == doctest::Approx(3).epsilon(0.4));
  CHECK(r.pace->recent(15).nodes[fwd].busy > 0.4);
}

TEST_CASE("rows are the busiest in the graph's order and do not jump") {
  Run r;
  live::Rows rows(*r.plan);
  Figures f;
  f.wall_s = 1;
  f.nodes.resize(r.plan->nodes.size());
  const auto busy = [&](const char* path) -> double& {
    return f.nodes[static_cast<std::size_t>(r.loaded.graph->find(path))].busy;
  };
  const auto names = [&](const std::vector<live::NodeRow>& picked) {
    std::string out;
    for (const auto& p : picked) out += (out.empty() ? "" : " ") + p.path;
    return out;
  };
  busy("step") = 0.5;
  busy("crop") = 0.3;
  busy("infer") = 0.2;
  CHECK(names(rows.pick(f, {}, 3)) == "crop step infer");
  busy("batch") = 0.22;
  CHECK(names(rows.pick(f, {}, 3)) == "crop step infer");
  busy("batch") = 0.27;
  CHECK(names(rows.pick(f, {}, 3)) == "crop batch step");
  Verdict v;
  v.node = r.loaded.graph->find("val");
  const auto picked = rows.pick(f, v, 3);
  CHECK(names(picked) == "crop step val");
  CHECK(picked.back().limits);
  CHECK(picked.back().room > 0);
}
