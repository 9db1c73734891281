// Whose time a body's time is, where one does the work of others: counters, figures, the verdict,
// forecasts, traces, and who is named when it fails.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/base/borrowed_time.h"
#include "engine/judge/dot.h"
#include "engine/judge/forecast.h"
#include "engine/judge/verdict.h"
#include "engine/trace/trace_file.h"
#include "engine/trace/trace_reader.h"
#include "tests/engine/toy.h"
#include "tests/temporary_folder.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

Owners both(int first, int second) {
  Owners owners(first);
  owners.add(second);
  return owners;
}

// cases -> zoom + noise + flip -> sink: `work` is what the last body of the run does.
struct Run {
  Builder b;
  int zoom, noise, flip;
  explicit Run(std::function<void(Firing&)> work, std::uint64_t samples = 6) {
    const int s = b.source("cases", samples);
    zoom = b.add("zoom", plain("zoom").fuses(Fuses::resamples), forward, {{s, 0}});
    noise = b.add("noise", plain("noise").fuses(Fuses::values), forward, {{zoom, 0}});
    flip = b.add("flip", plain("flip").fuses(Fuses::moves),
                 [work](Firing& f) {
                   work(f);
                   forward(f);
                 },
                 {{noise, 0}});
    b.add("sink", sink("sink"), [](Firing&) {}, {{flip, 0}});
    REQUIRE(b.plan());
    REQUIRE(b.made->runs.size() == 1);
  }
  const Plan& plan() const { return *b.made; }

  Figures figures() {
    RunEvents silent;
    Scheduler scheduler(plan(), b.pointers(), {}, silent);
    REQUIRE(scheduler.run().status == Outcome::Status::done);
    const auto now = scheduler.readings();
    std::vector<Reading> begin(now.size());
    std::int64_t busy = 0, bodies = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      begin[i].at_ns = scheduler.began_ns();
      busy += now[i].busy_ns;
      bodies += now[i].body_ns;
    }
    CHECK(busy == bodies);  // the sum is kept
    return Figures::between(plan(), {2, 2, 2, 1}, begin, now);
  }
  const NodeFigures& of(const Figures& f, int node) { return f.nodes[std::size_t(node)]; }
};

// How long passes really took, since a busy machine stretches them.
std::atomic<std::int64_t> long_ns, short_ns;

void nap_of(int microseconds, std::atomic<std::int64_t>& took) {
  const auto begin = std::chrono::steady_clock::now();
  nap(microseconds);
  took += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

// A long pass for the first of the run, one of no length, and a short one for the last.
void planted(Firing&) {
  PassTimer timer;
  timer.begin(Owners(0));
  nap_of(8000, long_ns);
  timer.begin(Owners(1));
  timer.begin(Owners(2));
  nap_of(500, short_ns);
}

struct Failures final : RunEvents {
  std::mutex mutex;
  std::vector<Quarantined> all;
  void quarantined(const Quarantined& q) override {
    std::lock_guard lock(mutex);
    all.push_back(q);
  }
};

}  // namespace

TEST_CASE("a pass is booked to the node whose work it does, and the sum over all nodes is kept") {
  Run r(planted);
  long_ns = short_ns = 0;
  const Figures f = r.figures();
  const double first = 1e-9 * static_cast<double>(long_ns),
               last = 1e-9 * static_cast<double>(short_ns);
  CHECK(r.of(f, r.zoom).busy_s >= first);
  CHECK(r.of(f, r.flip).busy_s >= last);
  CHECK(r.of(f, r.flip).body_s >= first + last);
  CHECK(r.of(f, r.zoom).busy_s <= r.of(f, r.flip).body_s + r.of(f, r.zoom).body_s - last);
  CHECK(r.of(f, r.zoom).with.empty());
  // So are quantiles and the slowest firings.
  CHECK(r.of(f, r.zoom).p50_ms >= 8 * 0.8);
  if (first > 4 * last) CHECK(judge(r.plan(), f).limits.front().node == r.zoom);
}

TEST_CASE("threads that help book to the same nodes") {
  Run r([](Firing& f) {
    std::thread([body = the_body, &f] {
      const HelpTimer helps(body);
      planted(f);
    }).join();
  });
  const Figures f = r.figures();
  CHECK(r.of(f, r.zoom).busy_s >= 6 * 0.008);
}

TEST_CASE("outside of a run nothing is booked elsewhere") {
  Builder b;
  const int s = b.source("cases", 3);
  const int x = b.add("x", plain("x"),
                      [](Firing& f) {
                        planted(f);
                        forward(f);
                      },
                      {{s, 0}});
  b.add("sink", sink("sink"), [](Firing&) {}, {{x, 0}});
  REQUIRE(b.plan());
  RunEvents silent;
  Scheduler scheduler(*b.made, b.pointers(), {}, silent);
  REQUIRE(scheduler.run().status == Outcome::Status::done);
  const Reading now = scheduler.readings()[std::size_t(x)];
  CHECK(now.busy_ns == now.body_ns);
  CHECK(now.busy_ns >= 3 * 8'000'000);
}

TEST_CASE("a pass that does the work of several is stated as one, by their names") {
  Run r([](Firing&) {
    PassTimer timer;
    timer.begin(both(0, 2));
    nap(8000);
  });
  Figures f = r.figures();
  f.nodes[std::size_t(r.flip)].busy_s = 0;  // next to nothing, which a busy machine stretches
  CHECK(r.of(f, r.zoom).with == std::vector{r.flip});
  CHECK(r.of(f, r.zoom).shared_s >= 6 * 0.008);
  CHECK(names_done_with(r.plan(), f, r.zoom) == "zoom + flip");
  CHECK(done_in(r.plan(), f, r.flip) == r.zoom);
  CHECK(done_in(r.plan(), f, r.noise) == -1);
  CHECK(names_done_with(r.plan(), f, r.noise) == "noise");

  const Figures again = Figures::from_json(r.plan(), f.to_json(r.plan()));
  CHECK(again.nodes[std::size_t(r.zoom)].with == r.of(f, r.zoom).with);
  CHECK(names_done_with(r.plan(), again, r.zoom) == "zoom + flip");

  Figures full = f;  // as if nothing else had happened, on one thread and one core
  full.threads = {1, 1, 1, 1};
  full.wall_s = r.of(f, r.zoom).busy_s * 1.01;
  const Verdict v = judge(r.plan(), full);
  CHECK(v.text.starts_with("`zoom` + `flip`, done in one pass, limit: "));
  CHECK(v.change == "free:zoom+flip");
  DotOptions options;
  options.figures = full;
  options.judge = true;
  const std::string dot = to_dot(r.plan(), options);
  CHECK(dot.find("zoom + flip: ") != std::string::npos);
  CHECK(dot.find("in the pass of zoom") != std::string::npos);
}

TEST_CASE("a failure in a run names the node whose work failed, and where it stands") {
  Run r([](Firing&) {
    PassTimer timer;
    timer.begin(Owners(0));
    throw DataError("no room");
  });
  RunEvents silent;
  Scheduler scheduler(r.plan(), r.b.pointers(), {}, silent);
  const Outcome outcome = scheduler.run();
  REQUIRE(outcome.status == Outcome::Status::failed);
  CHECK(outcome.failure.node == "zoom");
  CHECK(outcome.failure.message == "no room");
}

TEST_CASE("of a pass that does the work of several, a failure names them all") {
  Run r([](Firing&) {
    PassTimer timer;
    timer.begin(both(1, 2));
    throw DataError("no room");
  });
  RunEvents silent;
  Scheduler scheduler(r.plan(), r.b.pointers(), {}, silent);
  const Outcome outcome = scheduler.run();
  CHECK(outcome.failure.node == "noise");
  CHECK(outcome.failure.message == "no room (in one pass with flip)");
}

TEST_CASE("a sample is quarantined by the node whose work failed") {
  Run r([](Firing& f) {
    PassTimer timer;
    timer.begin(Owners(1));
    timer.begin(Owners(0));
    if (f.in().value == 2) throw DataError("no room");
    timer.begin(Owners(2));
    if (f.in().value == 3) throw DataError("no room either");
    timer.end();
    if (f.in().value == 4) throw DataError("none");
  });
  for (auto& n : r.b.graph.nodes) n.on_error = OnError::quarantine;
  for (auto& n : r.b.graph.nodes) n.max_bad = 5;
  Failures failures;
  Scheduler scheduler(r.plan(), r.b.pointers(), {}, failures);
  CHECK(scheduler.run().status == Outcome::Status::done);
  std::map<std::string, std::string> found;
  for (const Quarantined& q : failures.all) found[q.message] = q.node;
  CHECK(found == std::map<std::string, std::string>{
                     {"no room", "zoom"}, {"no room either", "flip"}, {"none", "flip"}});
}

TEST_CASE("each node of a run has the budget of bad samples that it has alone") {
  Run r([](Firing& f) {
    PassTimer timer;
    timer.begin(Owners(f.in().value < 2 ? 0 : 2));
    if (f.in().value < 4) throw DataError("bad");
  });
  auto& nodes = r.b.graph.nodes;
  for (auto& n : nodes) n.on_error = OnError::quarantine;
  const auto outcome = [&](int most_of_zoom, int most_of_flip) {
    for (auto& n : nodes) n.max_bad = most_of_flip;
    nodes[static_cast<std::size_t>(r.zoom)].max_bad = most_of_zoom;
    RunEvents silent;
    Scheduler scheduler(r.plan(), r.b.pointers(), {}, silent);
    return scheduler.run();
  };
  CHECK(outcome(2, 2).status == Outcome::Status::done);
  const Outcome few = outcome(1, 9), others = outcome(9, 1);
  CHECK(few.failure.node == "zoom");
  CHECK(few.failure.sample == "v1");
  CHECK(others.failure.node == "flip");
  CHECK(others.failure.sample == "v3");
}

TEST_CASE("a forecast frees of a run what the node left to its last one") {
  Run r([](Firing&) {});
  PlanCosts costs;
  costs.nodes.assign(r.plan().nodes.size(), {.service_s = 0, .cpu = 0});
  costs.epoch = {1000};
  costs.nodes[std::size_t(r.zoom)].service_s = 0.09;
  costs.nodes[std::size_t(r.flip)].service_s = 0.01;
  Plan plan = r.plan();
  plan.nodes[std::size_t(r.flip)].concurrency = 1;  // all of it is done there, one at a time
  CHECK(forecast(plan, {2, 2, 2, 1}, costs) == doctest::Approx(10).epsilon(0.05));
  costs.nodes[std::size_t(r.zoom)].service_s = 0;
  CHECK(forecast(plan, {2, 2, 2, 1}, costs) == doctest::Approx(100).epsilon(0.05));
}

TEST_CASE("where a run's last node works on one packet at a time, that limits") {
  Run r([](Firing&) {});
  Plan plan = r.plan();
  plan.nodes[std::size_t(r.flip)].concurrency = 1;
  Figures f;
  f.wall_s = 10;
  f.threads = {4, 2, 8, 1};
  f.nodes.resize(plan.nodes.size());
  for (auto& n : f.nodes) n.known = true, n.rate = 100;
  f.nodes[std::size_t(r.zoom)].busy_s = 9;
  f.nodes[std::size_t(r.flip)].busy_s = 0.8;
  f.nodes[std::size_t(r.flip)].body_s = 9.8;
  const Verdict v = judge(plan, f);
  CHECK(v.node == r.flip);
  CHECK(v.text.starts_with("`flip` limits: it works on one packet at a time, busy 98 %"));
}

TEST_CASE("a node that is to cost nothing stands in no run") {
  Run r([](Firing&) {});
  Diagnostics diagnostics;
  PlanOptions options;
  options.apart = {"noise"};
  const auto plan = make_plan(r.b.graph, options, diagnostics);
  REQUIRE(plan);
  CHECK(plan->runs.empty());
}

TEST_CASE(
    "a trace holds the passes that a body did for other nodes, and takes them from its time") {
  Run r(planted);
  TemporaryFolder folder;
  const auto file = folder / "trace.pftrace";
  {
    RunEvents silent;
    Scheduler scheduler(r.plan(), r.b.pointers(), {}, silent);
    TraceFile trace(file, r.plan(), scheduler.events(), [&] { return scheduler.readings(); });
    REQUIRE(scheduler.run().status == Outcome::Status::done);
  }
  const TraceData data = read_trace({file.string()});
  std::map<std::string, std::uint64_t> took;
  int passes = 0;
  std::int64_t bodies = 0;  // of flip, with the passes in them
  for (const TraceSlice& s : data.slices) {
    took[s.name] += s.took;
    if (s.name == "flip" && s.in.empty()) bodies += static_cast<std::int64_t>(s.end - s.begin);
    if (s.in.empty()) continue;
    ++passes;
    bodies -= static_cast<std::int64_t>(s.took);
    CHECK(s.in == "flip");
  }
  CHECK(passes == 12);  // of zoom and noise
  CHECK(took["zoom"] >= 6 * 8'000'000);
  CHECK(std::abs(static_cast<std::int64_t>(took["flip"]) - bodies) <
        1000);  // ns: times are rounded
  for (std::size_t i = 0; i < data.slices.size(); ++i) {
    if (data.slices[i].sample.empty()) continue;
    int met = 0;
    for (const std::size_t k : life_of(data, i)) met += data.slices[k].name == "zoom";
    CHECK(met == 2);  // its own body, and the pass
  }
}
