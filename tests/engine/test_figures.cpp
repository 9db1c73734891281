// What was measured at a node: each figure from two readings, and in JSON.
#include "engine/judge/figures.h"

#include <doctest/doctest.h>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

// cases (read by one thread) -> load (on two io threads) -> zoom + flip -> sink
struct Measured {
  Builder b;
  int cases, load, zoom, flip, sink;
  Threads threads{4, 3, 8, 2};
  std::vector<Reading> before, after;

  Measured() {
    cases = b.source("cases", 6);
    load = b.add("load", plain("load").lane(LaneKind::io), forward, {{cases, 0}});
    zoom = b.add("zoom", plain("zoom").fuses(Fuses::resamples), forward, {{load, 0}});
    flip = b.add("flip", plain("flip").fuses(Fuses::moves), forward, {{zoom, 0}});
    sink = b.add("sink", toy::sink("sink"), [](Firing&) {}, {{flip, 0}});
    REQUIRE(b.plan());
    REQUIRE(b.made->runs.size() == 1);
    before.resize(b.made->nodes.size());
    after.resize(b.made->nodes.size());
    for (Reading& r : before) r.at_ns = 3'000'000'000;
    for (Reading& r : after) r.at_ns = 5'000'000'000;
  }
  Reading& first(int i) { return before[static_cast<std::size_t>(i)]; }
  Reading& last(int i) { return after[static_cast<std::size_t>(i)]; }
  Figures figures() const { return Figures::between(*b.made, threads, before, after); }
  NodeFigures of(int i) const { return figures().nodes[static_cast<std::size_t>(i)]; }
};

}  // namespace

TEST_CASE("each figure is what two readings differ by") {
  Measured m;
  Reading &a = m.first(m.load), &b = m.last(m.load);
  a.fired = 10, b.fired = 30;
  a.passed = 1, b.passed = 5;
  a.spared = 2, b.spared = 9;
  a.out = 100, b.out = 111;
  a.lost = 7, b.lost = 20;
  a.busy_ns = 1'000'000'000, b.busy_ns = 4'000'000'000;
  a.body_ns = 2'000'000'000, b.body_ns = 4'500'000'000;
  a.starved_ns = 100'000'000, b.starved_ns = 600'000'000;
  a.blocked_ns = 200'000'000, b.blocked_ns = 1'400'000'000;
  a.cpu_ns = 500'000'000, b.cpu_ns = 800'000'000;
  a.cpu_of_ns = 600'000'000, b.cpu_of_ns = 1'600'000'000;
  a.bytes = 1'000'000, b.bytes = 13'000'000;
  a.bytes_of = 2, b.bytes_of = 6;
  b.p50_ns = 1'500'000, b.p95_ns = 2'500'000, b.p99_ns = 3'500'000;
  b.most_bytes = 4'500'000;
  b.epoch_size = 40;
  b.queue = 3, b.queue_max = 8;
  b.running = 2;
  b.credits_out = 5, b.most_credits_out = 6;
  const Figures f = m.figures();
  CHECK(f.wall_s == doctest::Approx(2));
  const NodeFigures n = m.of(m.load);
  CHECK(n.known);
  CHECK(n.fired == 20);
  CHECK(n.passed == 4);
  CHECK(n.spared == 7);
  CHECK(n.out == 11);
  CHECK(n.lost == 13);
  CHECK(n.rate == doctest::Approx(12));
  CHECK(n.busy_s == doctest::Approx(3));
  CHECK(n.busy == doctest::Approx(3.0 / 2 / 3));  // of three io threads
  CHECK(n.body_s == doctest::Approx(2.5));
  CHECK(n.starved == doctest::Approx(0.25));
  CHECK(n.blocked == doctest::Approx(0.6));
  CHECK(n.clocked);
  CHECK(n.cpu == doctest::Approx(0.3));
  CHECK(n.mb == doctest::Approx(3));
  CHECK(n.mb_most == doctest::Approx(4.5));
  CHECK(n.p50_ms == doctest::Approx(1.5));
  CHECK(n.p95_ms == doctest::Approx(2.5));
  CHECK(n.p99_ms == doctest::Approx(3.5));
  CHECK(n.epoch_size == 40);
  CHECK(n.queue == 3);
  CHECK(n.queue_max == 8);
  CHECK(n.running == 2);
  CHECK(n.credits_out == 5);
  CHECK(n.credits_most == 6);
  CHECK(n.host_s == 0);
  const NodeFigures idle = m.of(m.sink);
  CHECK_FALSE(idle.clocked);
  CHECK(idle.cpu == 1);
  CHECK(idle.mb == 0);
}

TEST_CASE("shares of the time are none or whole where a clock is between two counters") {
  Measured m;
  m.first(m.load).busy_ns = 10;
  m.first(m.load).body_ns = 10;
  m.first(m.load).starved_ns = 10;
  m.first(m.load).blocked_ns = 10;
  CHECK(m.of(m.load).busy_s == 0);
  CHECK(m.of(m.load).body_s == 0);
  CHECK(m.of(m.load).starved == 0);
  CHECK(m.of(m.load).blocked == 0);
  m.last(m.load).busy_ns = m.last(m.load).starved_ns = m.last(m.load).blocked_ns = 9'000'000'000;
  m.last(m.load).cpu_ns = 3;
  m.last(m.load).cpu_of_ns = 2;
  CHECK(m.of(m.load).busy == 1);
  CHECK(m.of(m.load).starved == 1);
  CHECK(m.of(m.load).blocked == 1);
  CHECK(m.of(m.load).cpu == 1);
}

TEST_CASE("where bodies queue work of a device, they are busy as long as that works") {
  Measured m;
  m.last(m.load).busy_ns = 500'000'000;
  m.last(m.load).body_ns = 500'000'000;
  m.first(m.load).device_ns = 1'000'000'000;
  m.last(m.load).device_ns = 3'000'000'000;
  m.last(m.load).cpu_ns = 80;
  m.last(m.load).cpu_of_ns = 100;
  const NodeFigures n = m.of(m.load);
  CHECK(n.busy_s == doctest::Approx(2));
  CHECK(n.body_s == doctest::Approx(2));
  CHECK(n.host_s == doctest::Approx(0.5));
  CHECK(n.cpu == doctest::Approx(0.8 / 4));
  CHECK(n.busy == doctest::Approx(2.0 / 2 / 3));
}

TEST_CASE("what a node left to the last of its run used the cores as that one did") {
  Measured m;
  m.last(m.flip).cpu_ns = 30;
  m.last(m.flip).cpu_of_ns = 60;
  CHECK_FALSE(m.of(m.zoom).clocked);  // it left nothing
  m.last(m.zoom).busy_ns = 1'000'000;
  CHECK(m.of(m.zoom).clocked);
  CHECK(m.of(m.zoom).cpu == doctest::Approx(0.5));
  m.last(m.zoom).cpu_ns = 10;  // it has been looked at itself
  m.last(m.zoom).cpu_of_ns = 40;
  CHECK(m.of(m.zoom).cpu == doctest::Approx(0.25));
  CHECK_FALSE(m.of(m.load).clocked);
}

TEST_CASE("passes that do the work of several are named where they are a twentieth of a node's") {
  Measured m;
  m.last(m.zoom).busy_ns = 1'000'000'000;
  m.first(m.zoom).shared_ns = 10'000'000;
  m.last(m.zoom).shared_ns = 70'000'000;
  m.last(m.zoom).with = 0b11;  // by positions in the run, itself among them
  const Plan& plan = *m.b.made;
  CHECK(m.of(m.zoom).with == std::vector{m.flip});
  CHECK(m.of(m.zoom).shared_s == doctest::Approx(0.06));
  CHECK(done_with(plan, m.figures(), m.zoom) == std::vector{m.zoom, m.flip});
  CHECK(names_done_with(plan, m.figures(), m.zoom) == "zoom + flip");
  CHECK(done_with(plan, m.figures(), m.load) == std::vector{m.load});
  CHECK(done_in(plan, m.figures(), m.flip) == m.zoom);
  CHECK(done_in(plan, m.figures(), m.zoom) == -1);
  CHECK(done_in(plan, m.figures(), m.load) == -1);
  m.last(m.flip).busy_ns = 4'000'000;  // more than a twentieth of those passes
  CHECK(done_in(plan, m.figures(), m.flip) == -1);
  m.last(m.zoom).shared_ns = 50'000'000;
  CHECK(done_with(plan, m.figures(), m.zoom) == std::vector{m.zoom});
  m.last(m.zoom).shared_ns = 2'000'000'000;
  CHECK(m.of(m.zoom).shared_s == doctest::Approx(1));  // no more than all
  m.last(m.zoom).device_ns = 3'000'000'000;
  m.last(m.zoom).shared_ns = 10'000'001;
  CHECK(m.of(m.zoom).shared_s == doctest::Approx(3));  // a body as a whole
}

TEST_CASE("readings of another plan, or none, are no figures") {
  Measured m;
  m.after.pop_back();
  CHECK_FALSE(m.figures().known());
  CHECK(m.figures().threads.io == 3);
  m.before.pop_back();
  CHECK_FALSE(m.figures().known());
}

TEST_CASE("a profile says all figures, and those that are not nothing alone") {
  Measured m;
  m.last(m.load).fired = 2;
  m.last(m.load).spared = 1;
  m.last(m.load).cpu_ns = 1;
  m.last(m.load).cpu_of_ns = 2;
  m.last(m.zoom).busy_ns = 500'000'000;
  m.last(m.zoom).body_ns = 250'000'000;
  m.last(m.zoom).shared_ns = 125'000'000;
  m.last(m.zoom).with = 2;
  m.last(m.sink).device_ns = 1'000'000'000;
  m.last(m.sink).busy_ns = 500'000'000;
  m.last(m.cases).credits_out = 1;
  m.last(m.cases).most_credits_out = 3;
  const Json j = m.figures().to_json(*m.b.made);
  CHECK(j["wall_s"] == 2.0);
  CHECK(j["threads"] == 4);
  CHECK(j["io_threads"] == 3);
  CHECK(j["cores"] == 8);
  CHECK(j["step_threads"] == 2);
  CHECK(j["nodes"]["load"].dump() ==
        R"({"type":"load","items":2,"passed":0,"rate":1.0,"busy":0.0,"busy_s":0.0,"starved":0.0,)"
        R"("blocked":0.0,"p50_ms":0.0,"p95_ms":0.0,"p99_ms":0.0,"mb":0.0,"mb_most":0.0,"sent":0,)"
        R"("lost":0,"epoch_size":-1,"queue":0,"queue_max":0,"running":0,"spared":1,"cpu":0.5})");
  const Json& zoom = j["nodes"]["zoom"];
  CHECK(zoom["body_s"] == 0.25);
  CHECK(zoom["shared_s"] == 0.125);
  CHECK(zoom["done_with"] == Json({"flip"}));
  CHECK_FALSE(zoom.contains("cpu"));
  CHECK_FALSE(zoom.contains("credits"));
  CHECK_FALSE(zoom.contains("spared"));
  CHECK_FALSE(zoom.contains("host_s"));
  CHECK_FALSE(j["nodes"]["cases"].contains("body_s"));
  CHECK(j["nodes"]["sink"]["host_s"] == 0.5);
  const Json credits = {{"total", m.b.made->nodes[0].credits}, {"out", 1}, {"most_out", 3}};
  CHECK(j["nodes"]["cases"]["credits"] == credits);
  const Figures again = Figures::from_json(*m.b.made, j);
  CHECK(again.to_json(*m.b.made) == j);
  CHECK(again.nodes[static_cast<std::size_t>(m.zoom)].with == std::vector{m.flip});
}

TEST_CASE("what a profile does not say has its usual value") {
  Measured m;
  const auto read = [&](const char* text) {
    return Figures::from_json(*m.b.made, Json::parse(text));
  };
  CHECK(read(R"({"threads": 5})").threads.io == 5);
  CHECK(read(R"({"threads": 1})").threads.io == 2);
  CHECK(read(R"({"threads": 5, "io_threads": 3})").threads.io == 3);
  CHECK(read(R"({"threads": "5"})").threads.compute == Threads{}.compute);
  const Figures f = read(R"({"wall_s": 10, "threads": 4, "io_threads": 3, "nodes": {
    "load": {"busy": 0.5},
    "zoom": {"busy_s": 2, "body_s": 3, "cpu": 0.25, "done_with": ["flip", 3, "other"],
             "credits": {"out": 2, "most_out": "x"}},
    "flip": 7}})");
  const NodeFigures &load = f.nodes[static_cast<std::size_t>(m.load)],
                    &zoom = f.nodes[static_cast<std::size_t>(m.zoom)];
  CHECK(load.busy_s == doctest::Approx(0.5 * 10 * 3));
  CHECK(load.body_s == load.busy_s);
  CHECK_FALSE(load.clocked);
  CHECK(zoom.busy_s == 2);
  CHECK(zoom.body_s == 3);
  CHECK(zoom.clocked);
  CHECK(zoom.cpu == 0.25);
  CHECK(zoom.with == std::vector{m.flip});
  CHECK(zoom.credits_out == 2);
  CHECK(zoom.credits_most == 0);
  CHECK_FALSE(f.nodes[static_cast<std::size_t>(m.flip)].known);
  CHECK(f.known());
  CHECK_FALSE(read("[]").known());
}

TEST_CASE("a node has as many bodies at once as its lane has threads, or as it allows") {
  Measured m;
  const Plan& plan = *m.b.made;
  PlanNode node = plan.nodes[static_cast<std::size_t>(m.zoom)];
  const Threads none{0, 0, 0, 0};
  CHECK(m.threads.slots(node) == 4);
  CHECK(none.slots(node) == 1);
  node.concurrency = 3;
  CHECK(m.threads.slots(node) == 3);
  node.concurrency = 9;
  CHECK(m.threads.slots(node) == 4);
  node.ordered = true;
  CHECK(m.threads.slots(node) == 1);
  CHECK(m.threads.slots(plan.nodes[static_cast<std::size_t>(m.cases)]) == 1);
  CHECK(m.threads.on(LaneKind::io) == 3);
  CHECK(none.on(LaneKind::io) == 1);
  CHECK(m.threads.on(LaneKind::step) == 1);
  CHECK(m.threads.on(LaneKind::copy) == 1);
}

TEST_CASE("the pace is that of the stream that trains, in samples of its source") {
  Builder b;
  const int other = b.source("other", 9);
  b.add("k", sink("k"), [](Firing&) {}, {{other, 0}});
  const int s = b.source("s", 9);
  const int crop = b.add("crop", expand_spec(), forward, {{s, 0}}, {{"n", 4}});
  const int batch = b.add("batch", batch_spec(), join_members, {{crop, 0}}, {{"size", 8}});
  const int fwd = b.add("fwd", reader_spec(), forward, {{batch, 0}});
  const int step = b.add("step", updater_spec(), forward, {{fwd, 0}});
  const int after = b.add("after", sink("after"), [](Firing&) {}, {{step, 0}});
  REQUIRE(b.plan());
  const Plan& plan = *b.made;
  CHECK(samples_each(plan, s) == 1);
  CHECK(samples_each(plan, crop) == 1);
  CHECK(samples_each(plan, batch) == doctest::Approx(0.25));
  CHECK(samples_each(plan, step) == doctest::Approx(2));
  const int stream = plan.nodes[static_cast<std::size_t>(s)].stream;
  CHECK(pace_stream(plan) == stream);
  CHECK(pace_node(plan, stream) == step);
  CHECK(pace_node(plan, plan.nodes[static_cast<std::size_t>(other)].stream) == 1);
  CHECK(pace(plan, Figures{}) == 0);
  const auto credits = [&](int i) { return plan.nodes[static_cast<std::size_t>(i)].credits; };
  CHECK(queue_room(plan, s) == 0);
  CHECK(queue_room(plan, crop) == credits(s));
  CHECK(queue_room(plan, batch) == 4 * credits(s));
  CHECK(queue_room(plan, fwd) == credits(batch));
  CHECK(queue_room(plan, step) == 1);  // one batch in the training region
  Figures f;
  f.nodes.resize(plan.nodes.size());
  f.nodes[static_cast<std::size_t>(step)].rate = 3;
  f.nodes[static_cast<std::size_t>(s)].rate = 11;
  f.nodes[static_cast<std::size_t>(after)].rate = 13;
  CHECK(pace(plan, f) == doctest::Approx(6));
  Plan varies = plan;
  varies.nodes[static_cast<std::size_t>(crop)].count = 0;
  CHECK(samples_each(varies, step) == 0);
  CHECK(pace(varies, f) == doctest::Approx(11));
  CHECK(queue_room(varies, batch) == varies.nodes[static_cast<std::size_t>(s)].credits);
}

TEST_CASE("without training the first stream that runs freely sets the pace") {
  Builder b;
  for (const std::string name : {"first", "second"}) {
    const int s = b.source(name, 9);
    b.add(name + " sink", sink("k"), [](Firing&) {}, {{s, 0}});
  }
  REQUIRE(b.plan());
  CHECK(pace_stream(*b.made) == 0);
  Plan plan = *b.made;
  plan.streams[0].takes_turns = true;
  CHECK(pace_stream(plan) == 1);
  plan.streams[1].takes_turns = true;
  CHECK(pace_stream(plan) == 0);
  CHECK(pace_node(plan, 1) == 3);
  CHECK(pace_node(plan, 2) == -1);
}
