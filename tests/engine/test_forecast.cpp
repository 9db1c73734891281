// The simulation against what can be worked out by hand.
#include "engine/judge/forecast.h"

#include <doctest/doctest.h>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

// source -> a -> buffer of n -> b -> sink, all of it asleep for so many ms.
struct Chain {
  Builder b;
  int source, a, ahead, last, sink;
  PlanCosts costs;
  explicit Chain(std::int64_t n, int a_threads = 0, int b_threads = 0) {
    source = b.source("s", 1000);
    a = b.add("a", plain("a"), forward, {{source, 0}});
    ahead = b.add("ahead", buffer_spec(), forward, {{a, 0}}, {{"n", n}});
    last = b.add("b", plain("b"), forward, {{ahead, 0}});
    sink = b.add("k", toy::sink("k"), [](Firing&) {}, {{last, 0}});
    b.graph.nodes[static_cast<std::size_t>(a)].threads = a_threads;
    b.graph.nodes[static_cast<std::size_t>(last)].threads = b_threads;
    REQUIRE(b.plan(4));
    costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
    costs.epoch.assign(b.made->streams.size(), -1);
  }
  NodeCost& of(int i) { return costs.nodes[static_cast<std::size_t>(i)]; }
  double rate(Threads threads = {4, 4, 8, 1}) { return forecast(*b.made, threads, costs); }
};

}  // namespace

TEST_CASE("A node of one body at a time gives the inverse of its time") {
  Chain c(8, 1);
  c.of(c.a).service_s = 0.01;
  CHECK(c.rate() == doctest::Approx(100).epsilon(0.02));
}

TEST_CASE("A node without a limit gives its lane's threads times that") {
  Chain c(8);
  c.of(c.a).service_s = 0.01;
  CHECK(c.rate() == doctest::Approx(400).epsilon(0.02));
  CHECK(c.rate({2, 4, 8, 1}) == doctest::Approx(200).epsilon(0.02));
}

TEST_CASE("What computes shares the cores, what sleeps does not") {
  Chain c(8);
  c.of(c.a).service_s = 0.01;
  c.of(c.a).cpu = 1;
  CHECK(c.rate({4, 4, 2, 1}) == doctest::Approx(200).epsilon(0.02));
  c.of(c.a).cpu = 0.5;  // half of it asleep: four bodies want two cores
  CHECK(c.rate({4, 4, 2, 1}) == doctest::Approx(400).epsilon(0.02));
}

TEST_CASE("Credits bound what is in flight") {
  for (std::int64_t n : {1, 2, 3}) {
    Chain c(n);
    c.of(c.last).service_s = 0.01;
    const double all =
        static_cast<double>(c.b.made->nodes[static_cast<std::size_t>(c.ahead)].credits);
    CHECK(c.rate() == doctest::Approx(100 * std::min(4.0, all)).epsilon(0.05));
  }
}

TEST_CASE("Two stages with a buffer between them run at the slower one's pace") {
  Chain c(2, 1, 1);
  c.of(c.a).service_s = 0.010;
  c.of(c.last).service_s = 0.008;
  CHECK(c.rate() == doctest::Approx(100).epsilon(0.03));
}

TEST_CASE("What a cache passes and what a filter drops costs nothing behind it") {
  Chain c(8, 1, 1);
  c.of(c.a).service_s = 0.01;
  c.of(c.a).fires = 0.25;
  CHECK(c.rate() == doctest::Approx(400).epsilon(0.05));
  c.of(c.a) = {.service_s = 0, .cpu = 0, .emits = 0.5};
  c.of(c.last).service_s = 0.01;
  CHECK(c.rate() == doctest::Approx(200).epsilon(0.05));
}

TEST_CASE("A batch waits for its members, and the rate is in samples") {
  Builder b;
  const int s = b.source("s", 1000);
  const int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 4}});
  b.add("k", sink("k"), [](Firing&) {}, {{batch, 0}});
  REQUIRE(b.plan(2));
  PlanCosts costs;
  costs.nodes.assign(3, {.service_s = 0, .cpu = 0});
  costs.epoch = {-1};
  costs.nodes[2].service_s = 0.1;  // a batch
  CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) == doctest::Approx(40).epsilon(0.03));
}

TEST_CASE("Each child of a 1:n node costs, and the rate is in items of the source") {
  for (const std::int64_t n : {3, 0}) {  // 0: now more, now fewer
    CAPTURE(n);
    Builder b;
    const int s = b.source("s", 1000);
    const int crop = b.add("crop", expand_spec(), forward, {{s, 0}}, {{"n", n}});
    const int k = b.add("k", sink("k"), [](Firing&) {}, {{crop, 0}});
    REQUIRE(b.plan(2));
    Figures f;
    f.wall_s = 1;
    f.threads = {2, 2, 8, 1};
    f.nodes.resize(3);
    auto& made = f.nodes[static_cast<std::size_t>(crop)];
    made.known = true;
    made.fired = 10;
    made.out = n > 0 ? 30 : 25;
    PlanCosts costs = PlanCosts::of(*b.made, *b.made, f);
    const double children = costs.nodes[static_cast<std::size_t>(crop)].children;
    CHECK(children == (n > 0 ? 3 : 2.5));
    costs.epoch = {-1};
    costs.nodes[static_cast<std::size_t>(k)].service_s = 0.02;  // one at a time
    CHECK(forecast(*b.made, f.threads, costs) ==
          doctest::Approx(1 / (0.02 * children)).epsilon(0.05));
    costs.nodes[static_cast<std::size_t>(crop)].service_s = 1;  // now it limits, with two threads
    costs.nodes[static_cast<std::size_t>(crop)].cpu = 0;
    CHECK(forecast(*b.made, f.threads, costs) == doctest::Approx(2).epsilon(0.05));
  }
}

TEST_CASE("The rest of an epoch is a batch of its own, or is dropped") {
  for (const bool drops : {false, true}) {
    CAPTURE(drops);
    Builder b;
    const int s = b.source("s", 10);
    const int batch =
        b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 4}, {"drop_last", drops}});
    const int fwd = b.add("fwd", reader_spec(), forward, {{batch, 0}});
    b.add("step", updater_spec(), forward, {{fwd, 0}});
    REQUIRE(b.plan(2));
    PlanCosts costs;
    costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
    costs.epoch = {10};
    costs.nodes[static_cast<std::size_t>(s)].service_s = 0.005;  // 0.05 s an epoch
    const double batches = drops ? 2 : 3;                        // each counts as a full one
    CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) ==
          doctest::Approx(batches * 4 / 0.05).epsilon(0.05));
  }
}

TEST_CASE("Where a step's batch is divided, a packet of the region is a shard") {
  for (const std::int64_t shards : {2, 3, 8}) {
    Builder b;
    b.graph.run.shards = shards;
    b.graph.run.step_threads = 1;
    const int s = b.source("s", 1000);
    const int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 8}});
    const int fwd = b.add("fwd", reader_spec(), forward, {{batch, 0}});
    const int step = b.add("step", updater_spec(), forward, {{fwd, 0}});
    REQUIRE(b.plan(2));
    const double each = 8.0 / static_cast<double>(shards);
    CHECK(samples_each(*b.made, step) == doctest::Approx(each));
    PlanCosts costs;
    costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
    costs.epoch = {-1};
    costs.nodes[static_cast<std::size_t>(fwd)].service_s = 0.1;  // a shard
    CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) == doctest::Approx(10 * each).epsilon(0.03));
  }
}

TEST_CASE("Training and validation take turns, so their times add up") {
  Builder b;
  const int s = b.source("s", 10);
  const int fwd = b.add("fwd", reader_spec(), forward, {{s, 0}});
  const int step = b.add("step", updater_spec(), forward, {{fwd, 0}});
  const int v = b.source("v", 5);
  b.graph.nodes[static_cast<std::size_t>(v)].after = "step";
  const int infer = b.add("infer", reader_spec(), forward, {{v, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{infer, 0}});
  REQUIRE(b.plan(2));
  PlanCosts costs;
  costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
  costs.epoch = {10, 5};
  costs.nodes[static_cast<std::size_t>(step)].service_s = 0.01;   // 0.1 s an epoch
  costs.nodes[static_cast<std::size_t>(infer)].service_s = 0.02;  // and 0.1 s of validation
  CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) == doctest::Approx(50).epsilon(0.05));
  costs.nodes[static_cast<std::size_t>(infer)].service_s = 0;
  CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) == doctest::Approx(100).epsilon(0.05));
  // A profile that ended before the first validation, or before the first epoch.
  for (const std::vector<std::int64_t>& epoch : {std::vector<std::int64_t>{10, -1}, {-1, -1}}) {
    costs.epoch = epoch;
    for (const double measured : {0.0, 0.02}) {
      costs.nodes[static_cast<std::size_t>(v)].service_s = measured;  // prepared ahead
      CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) == doctest::Approx(100).epsilon(0.05));
    }
  }
}

TEST_CASE("A stream beside it that costs nothing does not stop the clock") {
  Builder b;
  const int s = b.source("s", 10);
  const int work = b.add("work", plain("work"), forward, {{s, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{work, 0}});
  b.add("k2", sink("k2"), [](Firing&) {}, {{b.source("t", 10), 0}});
  REQUIRE(b.plan(1));
  PlanCosts costs;
  costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
  costs.epoch = {-1, -1};
  costs.nodes[static_cast<std::size_t>(work)].service_s = 0.01;
  CHECK(forecast(*b.made, {1, 1, 8, 1}, costs) == doctest::Approx(100).epsilon(0.05));
}

TEST_CASE("A stream beside it takes its share of the cores") {
  Builder b;
  const int s = b.source("s", 10);
  const int work = b.add("work", plain("work"), forward, {{s, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{work, 0}});
  const int beside = b.add("beside", plain("work"), forward, {{b.source("t", 10), 0}});
  b.add("k2", sink("k2"), [](Firing&) {}, {{beside, 0}});
  for (const int node : {work, beside}) b.graph.nodes[static_cast<std::size_t>(node)].threads = 1;
  REQUIRE(b.plan(2));
  PlanCosts costs;
  costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
  costs.epoch = {-1, -1};
  for (const int node : {work, beside})
    costs.nodes[static_cast<std::size_t>(node)] = {.service_s = 0.01, .cpu = 1};
  CHECK(forecast(*b.made, {4, 4, 1, 1}, costs) == doctest::Approx(50).epsilon(0.05));
}

TEST_CASE("Data bodies have the cores that the training step leaves") {
  Builder b;
  const int s = b.source("s", 1000);
  const int work = b.add("work", plain("work"), forward, {{s, 0}});
  const int fwd = b.add("fwd", reader_spec(), forward, {{work, 0}});
  const int step = b.add("step", updater_spec(), forward, {{fwd, 0}});
  REQUIRE(b.plan(4));
  PlanCosts costs;
  costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
  costs.epoch = {-1};
  costs.nodes[static_cast<std::size_t>(work)] = {.service_s = 0.01, .cpu = 1};
  costs.nodes[static_cast<std::size_t>(step)] = {.service_s = 0.005, .cpu = 1};
  // r samples a second take 0.005 r of a core for steps, and 0.01 r of what is left of two.
  CHECK(forecast(*b.made, {4, 4, 2, 1}, costs) == doctest::Approx(2 / 0.015).epsilon(0.05));
  CHECK(forecast(*b.made, {4, 4, 9, 1}, costs) == doctest::Approx(200).epsilon(0.05));
}

TEST_CASE("Shards of no whole number of samples make no epoch longer") {
  Builder b;
  b.graph.run.shards = 3;
  b.graph.run.step_threads = 1;
  const int s = b.source("s", 24);
  const int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 8}});
  const int fwd = b.add("fwd", reader_spec(), forward, {{batch, 0}});
  b.add("step", updater_spec(), forward, {{fwd, 0}});
  const int v = b.source("v", 9);
  b.graph.nodes[static_cast<std::size_t>(v)].after = "step";
  const int infer = b.add("infer", reader_spec(), forward, {{v, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{infer, 0}});
  REQUIRE(b.plan(2));
  PlanCosts costs;
  costs.nodes.assign(b.made->nodes.size(), {.service_s = 0, .cpu = 0});
  costs.epoch = {24, 9};
  costs.nodes[static_cast<std::size_t>(fwd)].service_s = 0.1;  // nine shards an epoch
  costs.nodes[static_cast<std::size_t>(infer)].service_s = 0.1;
  CHECK(forecast(*b.made, {2, 2, 8, 1}, costs) == doctest::Approx(24 / 1.8).epsilon(0.05));
}

TEST_CASE("Costs come from figures by path, and what was crowded out is no cost") {
  Chain c(2);
  Figures f;
  f.wall_s = 10;
  f.threads = {2, 2, 2, 1};
  f.nodes.resize(c.b.made->nodes.size());
  auto& a = f.nodes[static_cast<std::size_t>(c.a)];
  a.known = true;
  a.fired = 100;
  a.passed = 300;
  a.busy_s = 20;
  a.cpu = 0.5;
  PlanCosts costs = PlanCosts::of(*c.b.made, *c.b.made, f);
  const NodeCost& cost = costs.nodes[static_cast<std::size_t>(c.a)];
  CHECK(cost.service_s == doctest::Approx(0.2));
  CHECK(cost.fires == doctest::Approx(0.25));
  // A source makes what no cache has: 20 items of 0.1 s, 180 for nothing.
  auto& source = f.nodes[static_cast<std::size_t>(c.source)];
  source.known = true;
  source.fired = 200;
  source.spared = 180;
  source.busy_s = 2;
  costs = PlanCosts::of(*c.b.made, *c.b.made, f);
  const NodeCost& made = costs.nodes[static_cast<std::size_t>(c.source)];
  CHECK(made.service_s == doctest::Approx(0.1));
  CHECK(made.fires == doctest::Approx(0.1));
  costs.nodes[static_cast<std::size_t>(c.a)].service_s = 0;
  CHECK(forecast(*c.b.made, f.threads, costs) == doctest::Approx(100).epsilon(0.05));
  f.nodes[static_cast<std::size_t>(c.last)] = a;  // now 20 s of processor in 10 s of 2 cores
  costs = PlanCosts::of(*c.b.made, *c.b.made, f);
  CHECK(costs.nodes[static_cast<std::size_t>(c.a)].service_s == doctest::Approx(0.1));
}
