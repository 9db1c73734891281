// The closed form of a step on many processes against what can be worked out by hand.
#include "engine/judge/scaling.h"

#include <doctest/doctest.h>

#include "tests/engine/toy.h"

using namespace sluice;

namespace {

// 8 items of 10 ms in 8 shards; 1,000,000 values over 1 GB/s; nothing else costs anything.
struct Case {
  Training training{.items = 8, .shards = 8, .epoch = 20};
  StepCosts costs{.item_s = 0.01, .step_cores = 1, .items_a_s = 1e6, .values = 1000000};
  Cluster cluster{.node = 1, .cores = 4, .link = 1e9, .inside = 1e18, .latency = 0, .memory = 1e18};
  Scaling on(int ranks) const { return Scaling::of(training, costs, cluster, ranks); }
};

}  // namespace

TEST_CASE("what an item costs does not depend on the shards it was measured in") {
  using namespace sluice::toy;
  // 5 s in which 50 batches of 8 were trained: 4 s of forward passes, of the updater 1 s in which
  // 0.2 s were its own.
  for (const std::int64_t shards : {1, 4, 8}) {
    Builder b;
    b.graph.run.shards = shards;
    b.graph.run.step_threads = 1;
    const int s = b.source("s", 400);
    const int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 8}});
    const int fwd = b.add("fwd", reader_spec(), forward, {{batch, 0}});
    b.add("step", updater_spec(), forward, {{fwd, 0}});
    REQUIRE(b.plan(2));
    const double rate = 10.0 * static_cast<double>(shards);
    Json profile = {{"wall_s", 5},
                    {"step", {{"steps", 50}, {"update_ms", 200}, {"values", 7}}},
                    {"nodes",
                     {{"s", {{"rate", 80}, {"busy_s", 0.4}}},
                      {"batch", {{"rate", rate}, {"busy_s", 0}}},
                      {"fwd", {{"rate", rate}, {"busy_s", 4}}},
                      {"step", {{"rate", rate}, {"busy_s", 1}}}}}};
    const StepCosts c = StepCosts::of(*b.made, profile, {2, 2, 8, 1});
    CHECK(c.item_s == doctest::Approx(4.8 / 400));
    CHECK(c.update_s == doctest::Approx(0.004));
    CHECK(c.item_cpu_s == doctest::Approx(0.4 / 400));
    CHECK(c.values == 7);
    CHECK(c.step_cores == 1);
    profile["nodes"]["fwd"]["host_s"] = 0.1;  // a device did it
    CHECK(StepCosts::of(*b.made, profile, {2, 2, 8, 1}).step_cores == 0);
  }
}

TEST_CASE("one rank takes its items and the update, and sends nothing") {
  Case c;
  c.costs.update_s = 0.005;
  const Scaling s = c.on(1);
  CHECK(s.step_s == doctest::Approx(0.085));
  CHECK(s.sent == 0);
  CHECK(s.efficiency == 1);
  CHECK(s.au == doctest::Approx(1));
  CHECK(s.steps == 3);  // 20 items in batches of 8
  CHECK(s.lost == doctest::Approx(1 - 2.5 / 3));
}

TEST_CASE("the sum takes a ring's traffic where each rank has one partial sum") {
  const Scaling s = Case().on(4);
  CHECK(s.busiest == 2);
  CHECK(s.passes_s == doctest::Approx(0.02));
  CHECK(s.sum_s == doctest::Approx(2 * 3.0 / 4 * 4e6 / 1e9));
  CHECK(s.sent == doctest::Approx(2 * 3.0 / 4 * 4e6));
  CHECK(s.efficiency == doctest::Approx(0.08 / (4 * 0.026)));
  CHECK(s.limit == "the network");
}

TEST_CASE("bfloat16 sends half, and messages cost their latency") {
  Case c;
  c.training.halves = true;
  CHECK(c.on(4).sum_s == doctest::Approx(3.0 / 4 * 4e6 / 1e9));
  c.cluster.latency = 1e-3;
  CHECK(c.on(4).sum_s == doctest::Approx(0.003 + 2 * 3e-3));
  CHECK(c.on(4).header_s == doctest::Approx(3e-3));
}

TEST_CASE("ranks that do not divide the shards wait for the busiest, and send more") {
  const Scaling s = Case().on(3);
  CHECK(s.busiest == 3);
  CHECK(s.passes_s == doctest::Approx(0.03));
  // The busiest link: a rank of two partial sums sends two to each of two, and its piece.
  CHECK(s.sent == doctest::Approx(2 * 3 * 4e6 / 3));
}

TEST_CASE("ranks of a machine share its link and its cores") {
  Case c;
  c.cluster.node = 4;
  CHECK(c.on(4).sum_s < 1e-9);  // no link between them
  CHECK(c.on(8).sum_s == doctest::Approx(2 * 4 * 4 * 4e6 / 8 / 1e9));
  c.cluster.cores = 2;
  CHECK(c.on(4).passes_s == doctest::Approx(0.04));
  c.cluster.inside = 1e9;  // a wire's rate, whatever the cores do
  CHECK(c.on(4).sum_s == doctest::Approx(2 * 3 * 1e6 / 1e9));
  c.costs.step_cores = 0;  // on GPUs
  CHECK(c.on(4).passes_s == doctest::Approx(0.02));
}

TEST_CASE("data that comes too slowly sets the step, and leaves the region idle") {
  Case c;
  c.costs.items_a_s = 50;
  const Scaling s = c.on(8);
  CHECK(s.step_s == doctest::Approx(0.02));
  CHECK(s.limit == "data");
  CHECK(s.au == doctest::Approx(0.5));
}

TEST_CASE("cores that the region fills leave none to load with") {
  Case c;
  c.cluster.node = 4;
  c.cluster.cores = 2;
  c.costs.update_s = 0.005;
  CHECK(c.on(4).step_s == doctest::Approx(0.05));  // 4 x (2 x 10 ms + 5 ms) on 2 cores
  c.costs.item_cpu_s = 0.001;
  CHECK(c.on(4).step_s == doctest::Approx(0.054));
  CHECK(c.on(4).limit == "the cores, which loading shares");
  c.costs.item_cpu_s = 0.0001;  // hardly any: the region is what takes the time
  CHECK(c.on(4).limit == "uneven shards or cores");
  CHECK(c.on(4).data_s < 0.001);
}

TEST_CASE("the slowest of more ranks is waited for longer") {
  Case c;
  c.costs.spread = 0.1;
  CHECK(c.on(1).wait_s == 0);
  // The larger of two normal draws is 0.564 standard deviations above the mean (Blom's rule: 0.59).
  CHECK(c.on(2).wait_s == doctest::Approx(0.59 * 0.1 / 2 * 0.04).epsilon(0.01));
  CHECK(c.on(8).wait_s / c.on(8).passes_s > c.on(2).wait_s / c.on(2).passes_s);
}

TEST_CASE("what takes most of a step beyond the passes' equal share is named") {
  Case c;
  c.cluster.link = 1e18;  // the sum takes no time
  CHECK(c.on(1).limit == "passes");
  CHECK(c.on(3).limit == "uneven shards or cores");
  c.costs.update_s = 0.003;  // less than a twentieth
  CHECK(c.on(1).limit == "passes");
  c.costs.update_s = 0.005;
  CHECK(c.on(1).limit == "the update");
  c.costs.spread = 0.5;
  CHECK(c.on(2).limit == "the slowest rank");
  c.costs.items_a_s = 40;  // an item in 25 ms
  CHECK(c.on(1).limit == "data");
}

TEST_CASE("a rank keeps partial sums, what is sent and what comes, and the whole") {
  Case c;
  c.costs.memory_mb = 100;
  CHECK(c.on(1).memory_mb == doctest::Approx(100 + 4 * 4));  // four levels of eight shards
  CHECK(c.on(4).memory_mb == doctest::Approx(100 + 2 * 4 + 4 + 4 + 4));
  c.training.halves = true;
  CHECK(c.on(1).memory_mb == doctest::Approx(100 + 4 * 4));
  // Only what is sent is half as long: what comes is widened.
  CHECK(c.on(4).memory_mb == doctest::Approx(100 + 2 * 4 + 2 + 4 + 4));
  // Two or three shards are two levels; three make two partial sums, three ranks five.
  CHECK(c.on(3).memory_mb == doctest::Approx(100 + 2 * 4 + 2 * 2 + 5. / 3 * 4 + 4));
  c.training.shards = 1;
  CHECK(c.on(1).memory_mb == doctest::Approx(100));
}

TEST_CASE("the sum reads and writes memory, which ranks of a machine share by its cores") {
  Case c;
  c.cluster.link = 1e18;
  c.cluster.memory = 1e9;
  // Of 4 MB: two packed and two more of what is packed, three added, four laid out.
  CHECK(c.on(2).sum_s == doctest::Approx((2 * 4e6 + 3 * 2 * 2e6 + 4 * 4e6) / 1e9));
  c.cluster.node = 8;
  CHECK(c.on(4).sum_s == doctest::Approx((2 * 4e6 + 3 * 4 * 1e6 + 4 * 4e6) / 1e9));
  CHECK(c.on(8).sum_s == doctest::Approx(2 * (2 * 4e6 + 3 * 8 * 0.5e6 + 4 * 4e6) / 1e9));
}

TEST_CASE("a step's costs in JSON are those of the structure, and epochs where there are any") {
  Case c;
  const Scaling s = c.on(4);
  Json j = s.to_json();
  CHECK(j.size() == 17);
  CHECK(j["ranks"] == 4);
  CHECK(j["shards"] == 8);
  CHECK(j["busiest_shards"] == 2);
  CHECK(j["step_ms"] == 1e3 * s.step_s);
  CHECK(j["passes_ms"] == 1e3 * s.passes_s);
  CHECK(j["update_ms"] == 1e3 * s.update_s);
  CHECK(j["wait_ms"] == 1e3 * s.wait_s);
  CHECK(j["header_ms"] == 1e3 * s.header_s);
  CHECK(j["exposed_ms"] == 1e3 * s.sum_s);
  CHECK(j["data_ms"] == 1e3 * s.data_s);
  CHECK(j["au"] == s.au);
  CHECK(j["efficiency"] == s.efficiency);
  CHECK(j["memory_mb"] == s.memory_mb);
  CHECK(j["sent_bytes"] == s.sent);
  CHECK(j["limit"] == s.limit);
  CHECK(j["steps_an_epoch"] == 3);
  CHECK(j["lost_to_last_batch"] == s.lost);
  c.training.epoch = 0;
  j = c.on(4).to_json();
  CHECK(j.size() == 15);
  CHECK_FALSE(j.contains("steps_an_epoch"));
}
