#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

TEST_CASE("a chain delivers every sample once, in order, on 1, 2 and 8 slots") {
  for (int threads : {1, 2, 8}) {
    Builder b;
    b.graph.run.epochs = 3;
    std::vector<std::uint64_t> got;
    int flushes = 0;
    int s = b.source("s", 50);
    int x = b.add("x", plain("x"),
                  [](Firing& f) {
                    nap(f.random().integer(200));
                    f.emit(Sample(f.in().value * 2));
                  },
                  {{s, 0}});
    int k = b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().value); }, {{x, 0}});
    b.body(k).end = [&](Flush&) { ++flushes; };
    Outcome o = run(b, threads);
    CHECK(o.status == Outcome::Status::done);
    REQUIRE(got.size() == 150);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == 2 * (i % 50));
    CHECK(flushes == 3);
  }
  CHECK(Sample::live == 0);
}

TEST_CASE("a diamond behind a filter and a 1:n joins by stamp and batches in order") {
  for (int threads : {1, 2, 8}) {
    Builder b;
    b.graph.run.epochs = 2;
    std::vector<std::vector<std::uint64_t>> got;
    int s = b.source("s", 21);
    int filter = b.add("filter", plain("f"),
                       [](Firing& f) {
                         if (f.in().value % 5 != 3) f.emit(Sample(f.in().value));
                       },
                       {{s, 0}});
    int crop = b.add("crop", plain("c").param("n", &P::n, "").expands("n"),
                     [](Firing& f) {
                       for (std::uint64_t i = 0; i < f.in().value % 4; ++i)
                         f.emit(Sample(f.in().value * 10 + i));
                     },
                     {{filter, 0}}, {{"n", 1}});
    auto slow = [](Firing& f) {
      nap(f.random().integer(300));
      f.emit(Sample(f.in().value + 1));
    };
    int l = b.add("l", plain("l"), slow, {{crop, 0}});
    int r = b.add("r", plain("r"), slow, {{crop, 0}});
    int j = b.add("j", Spec("j", "").in("a").in("b").out("sample"),
                  [](Firing& f) {
                    CHECK(f.in(0).value == f.in(1).value);
                    f.emit(Sample(f.in(0).value));
                  },
                  {{l, 0}, {r, 0}});
    int batch = b.add("batch", batch_spec(), join_members, {{j, 0}}, {{"size", 4}, {"n", 2}});
    b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().members); }, {{batch, 0}});
    Outcome o = run(b, threads);
    CHECK(o.status == Outcome::Status::done);
    std::vector<std::uint64_t> expect;
    for (std::uint64_t v = 0; v < 21; ++v)
      if (v % 5 != 3)
        for (std::uint64_t i = 0; i < v % 4; ++i) expect.push_back(v * 10 + i + 1);
    std::size_t per_epoch = (expect.size() + 3) / 4;
    REQUIRE(got.size() == 2 * per_epoch);
    for (int e = 0; e < 2; ++e) {
      std::vector<std::uint64_t> flat;
      for (std::size_t i = 0; i < per_epoch; ++i)
        for (auto v : got[e * per_epoch + i]) flat.push_back(v);
      CHECK(flat == expect);
    }
  }
}

TEST_CASE("training and validation take turns, and the last epoch is validated") {
  for (int threads : {1, 2, 8}) {
    Builder b;
    b.graph.run.epochs = 5;
    std::uint64_t weight = 1;
    std::vector<std::string> seen;
    int t = b.source("t", 10);
    int batch = b.add("batch", batch_spec(), join_members, {{t, 0}}, {{"size", 4}, {"n", 2}});
    int fwd = b.add("fwd", plain("fwd").param("net", &P::net, "").reads("net").lane(LaneKind::step),
                    [&](Firing& f) { f.emit(Sample(mix(f.in().value + weight))); }, {{batch, 0}},
                    {{"net", "net"}});
    int step = b.add(
        "step",
        Spec("step", "").in("sample").param("net", &P::net, "").updates("net").lane(LaneKind::step),
        [&](Firing& f) { weight = mix(weight ^ f.in().value); }, {{fwd, 0}}, {{"net", "net"}});
    b.body(step).end = [&](Flush& f) { seen.push_back("t" + std::to_string(f.epoch)); };
    int v = b.source("v", 3, 100);
    b.graph.nodes[v].after = "step";
    b.graph.nodes[v].every_epochs = 2;
    std::vector<std::uint64_t> at;
    int infer =
        b.add("infer", plain("infer").param("net", &P::net, "").reads("net").lane(LaneKind::step),
              [&](Firing& f) {
                at.push_back(weight);
                f.emit(Sample(f.in().value));
              },
              {{v, 0}}, {{"net", "net"}});
    int dice = b.add("dice", sink("dice"), [](Firing&) { nap(500); }, {{infer, 0}});
    b.body(dice).end = [&](Flush& f) { seen.push_back("v" + std::to_string(f.epoch)); };
    Outcome o = run(b, threads);
    CHECK(o.status == Outcome::Status::done);
    CHECK(seen == std::vector<std::string>{"t0", "t1", "v1", "t2", "t3", "v3", "t4", "v4"});
    CHECK(std::set<std::uint64_t>(at.begin(), at.end()).size() == 3);
    static std::uint64_t first = weight;
    CHECK(weight == first);
    CHECK(o.position.turn == 8);
  }
}

TEST_CASE("a cache fires its prefix once an item and the rest in every epoch") {
  Builder b;
  b.graph.run.epochs = 3;
  std::atomic<int> loads{0}, after{0};
  int s = b.source("s", 12);
  int load = b.add("load", plain("load"),
                   [&](Firing& f) {
                     ++loads;
                     if (f.in().value != 7) f.emit(Sample(f.in().value + 100));
                   },
                   {{s, 0}});
  int cache =
      b.add("cache", plain("cache").cache(), [](Firing& f) { f.emit_ptr(f.ptr()); }, {{load, 0}});
  b.body(cache).cache = std::make_shared<MemoryStore>();
  std::uint64_t sum = 0;
  b.add("k", sink("k"),
        [&](Firing& f) {
          ++after;
          sum += f.in().value;
        },
        {{cache, 0}});
  CHECK(run(b, 1).status == Outcome::Status::done);
  CHECK(loads >= 12);
  CHECK(loads < 36);
  CHECK(after == 33);
  CHECK(sum == 3 * (66 - 7 + 1100));
}

TEST_CASE("an exception ends the run with node, sample and stamp, on every lane") {
  for (LaneKind lane : {LaneKind::compute, LaneKind::io, LaneKind::step}) {
    Builder b;
    int s = b.source("s", 100);
    int x = b.add("x", plain("x").lane(lane),
                  [](Firing& f) {
                    if (f.in().value == 17) throw DataError("planted");
                    f.emit(Sample(f.in().value));
                  },
                  {{s, 0}});
    b.add("k", sink("k"), [](Firing&) {}, {{x, 0}});
    Outcome o = run(b, 4);
    CHECK(o.status == Outcome::Status::failed);
    CHECK(o.failure.node == "x");
    CHECK(o.failure.sample == "v17");
    CHECK(o.failure.message == "planted");
    CHECK(Sample::live == 0);
  }
}

TEST_CASE("quarantine skips bad samples, counts them and goes on") {
  Builder b;
  int s = b.source("s", 20);
  int x = b.add("x", plain("x"),
                [](Firing& f) {
                  if (f.in().value % 7 == 3) throw DataError("bad");
                  f.emit(Sample(f.in().value));
                },
                {{s, 0}});
  b.graph.nodes[x].on_error = OnError::quarantine;
  int n = 0;
  b.add("k", sink("k"), [&](Firing&) { ++n; }, {{x, 0}});
  CHECK(run(b, 2).status == Outcome::Status::done);
  CHECK(n == 17);
}

TEST_CASE("stop is a cut: what was admitted finishes, the rest is counted as discarded") {
  for (int threads : {1, 2, 8}) {
    Builder b;
    b.graph.run.epochs = 1000;
    Scheduler* running = nullptr;
    int s = b.source("s", 100);
    int x = b.add("x", plain("x"),
                  [](Firing& f) {
                    nap(50);
                    f.emit(Sample(f.in().value));
                  },
                  {{s, 0}});
    int g = b.add("g", plain("g").param("n", &P::n, "").gate("n"),
                  [](Firing& f) { f.emit_ptr(f.ptr()); }, {{x, 0}}, {{"n", 3}});
    int seen = 0, flushed = 0;
    int k = b.add("k", sink("k"),
                  [&](Firing&) {
                    if (++seen == 150) running->stop();
                  },
                  {{g, 0}});
    b.body(k).end = [&](Flush&) { ++flushed; };
    REQUIRE(b.plan(threads));
    RunEvents silent;
    RunOptions o;
    o.threads = threads;
    Scheduler sched(*b.made, b.pointers(), o, silent);
    running = &sched;
    Outcome out = sched.run();
    CHECK(out.status == Outcome::Status::cut);
    CHECK(flushed == 1);
    CHECK(seen >= 150);
    CHECK(seen < 170);
    const Ledger& l = sched.ledger(k);
    std::uint64_t skipped = 0;
    for (const auto& [r, n] : l.skipped) skipped += n;
    CHECK(l.in == l.fired + skipped);
    std::uint64_t lost = 0;
    for (int i : {s, x, g, k})
      for (const auto& [r, n] : sched.ledger(i).lost) lost += n;
    CHECK(sched.ledger(s).emitted == l.delivered + lost);
  }
}

TEST_CASE("the members of a batch that is taken apart count as one sample each") {
  Builder b;
  int s = b.source("s", 10);
  int g = b.add("g", batch_spec(), join_members, {{s, 0}}, {{"size", 4}, {"n", 8}});
  int d = b.add("d", expand_spec().decollates(),
                [](Firing& f) {
                  for (std::uint64_t member : f.in().members) f.emit(Sample(member));
                },
                {{g, 0}}, {{"n", 4}});
  int k = b.add("k", sink("k"), [](Firing&) {}, {{d, 0}});
  REQUIRE(b.plan());
  RunEvents silent;
  Scheduler sched(*b.made, b.pointers(), {}, silent);
  CHECK(sched.run().status == Outcome::Status::done);
  CHECK(sched.ledger(s).emitted == 10);
  CHECK(sched.ledger(k).fired == 10);
  CHECK(sched.ledger(k).delivered == 10);
}

TEST_CASE("a body that never emits where its neighbour waits is reported as a stall") {
  Builder b;
  int s = b.source("s", 5);
  struct Planted : std::exception {};
  int x = b.add("x", plain("x"), [](Firing& f) { f.emit(Sample(f.in().value)); }, {{s, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{x, 0}});
  REQUIRE(b.plan(2));
  b.made->nodes[static_cast<std::size_t>(s)].outs[0][0].port = 9;  // an edge into nowhere
  RunEvents silent;
  Scheduler sched(*b.made, b.pointers(), {}, silent);
  Outcome out = sched.run();
  CHECK(out.status == Outcome::Status::stalled);
  CHECK(out.stall.find("x (x): epoch 0") != std::string::npos);
}

TEST_CASE("a source that lists nothing ends the run, and is named with its place") {
  Builder b;
  const int s = b.source("cases", 0);
  b.add("k", sink("k"), [](Firing&) {}, {{s, 0}});
  const Outcome out = toy::run(b, 2);
  CHECK(out.status == Outcome::Status::failed);
  CHECK(out.failure.exit == Exit::data);
  CHECK(out.failure.message == "the data list is empty");
  CHECK(out.failure.node == "cases");
}
