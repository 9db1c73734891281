// One small graph for each rule of the scheduler that a wrong turn once broke, or could.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "engine/run/standstill.h"
#include "engine/run/turnstile.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

using Values = std::vector<std::uint64_t>;

// source -> batch(1) -> fwd -> step, with `weight` changed by every batch.
struct Training {
  Builder b;
  std::uint64_t weight = 1;
  Values read, stepped;
  int source = -1, batch = -1, fwd = -1, step = -1;
  std::function<void(Firing&)> in_fwd = [](Firing&) {};

  Training(std::uint64_t n, std::int64_t epochs, int size = 1, bool drop_last = false) {
    b.graph.run.epochs = epochs;
    source = b.source("t", n);
    batch = b.add("batch", batch_spec(), join_members, {{source, 0}},
                  {{"size", size}, {"n", 2}, {"drop_last", drop_last}});
    fwd = b.add("fwd", reader_spec(),
                [this](Firing& f) {
                  read.push_back(f.in().value);
                  in_fwd(f);
                  f.emit_ptr(f.ptr());
                },
                {{batch, 0}}, {{"net", "net"}});
    step = b.add("step", updater_spec(),
                 [this](Firing& f) {
                   stepped.push_back(f.in().value);
                   weight = mix(weight ^ f.in().value);
                   f.emit_ptr(f.ptr());
                 },
                 {{fwd, 0}}, {{"net", "net"}});
  }
  int validate(int from) {
    b.graph.nodes[static_cast<std::size_t>(from)].after = "step";
    return from;
  }
};

// Runs what was planned; `running` is the scheduler then, for bodies that stop it.
Outcome run_planned(Builder& b, Scheduler*& running, RunOptions options = {}) {
  RunEvents silent;
  options.background = false;
  Scheduler s(*b.made, b.pointers(), options, silent);
  running = &s;
  return s.run();
}

Values losses(const Scheduler& s, const std::vector<int>& nodes, const std::string& reason) {
  Values v;
  for (int n : nodes) {
    const auto& lost = s.ledger(n).lost;
    v.push_back(lost.count(reason) ? lost.at(reason) : 0);
  }
  return v;
}

int priority_of_this_thread() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
}

}  // namespace

// ---- capacity -----------------------------------------------------------------------------------

TEST_CASE("a filter between a 1:n and a batch leaves the segment enough credits") {
  for (int threads : {1, 2, 8}) {
    Builder b;
    std::size_t got = 0;
    int s = b.source("s", 60);
    int crop = b.add("crop", expand_spec(),
                     [](Firing& f) {
                       for (std::uint64_t i = 0; i < 8; ++i) f.emit(Sample(f.in().value * 8 + i));
                     },
                     {{s, 0}}, {{"n", 8}});
    int filter = b.add("filter", plain("filter"),
                       [](Firing& f) {
                         if (f.in().value % 8 == 0) f.emit_ptr(f.ptr());
                       },
                       {{crop, 0}});
    int batch = b.add("batch", batch_spec(), join_members, {{filter, 0}}, {{"size", 30}, {"n", 1}});
    b.add("k", sink("k"), [&](Firing& f) { got += f.in().members.size(); }, {{batch, 0}});
    CHECK(run(b, threads).status == Outcome::Status::done);
    CHECK(got == 60);
  }
}

TEST_CASE("a shuffle behind a 1:n may hold one child of each parent") {
  Builder b;
  std::set<std::uint64_t> got;
  int s = b.source("s", 100);
  int crop = b.add("crop", expand_spec(),
                   [](Firing& f) {
                     for (std::uint64_t i = 0; i < 8; ++i) f.emit(Sample(f.in().value * 8 + i));
                   },
                   {{s, 0}}, {{"n", 8}});
  int shuffle = b.add("shuffle", shuffle_spec(), {}, {{crop, 0}}, {{"n", 60}});
  b.add("k", sink("k"), [&](Firing& f) { got.insert(f.in().value); }, {{shuffle, 0}});
  CHECK(run(b, 2).status == Outcome::Status::done);
  CHECK(got.size() == 800);
}

TEST_CASE("a joined credit is the other one where one is missing, and none is held twice") {
  const auto pool = std::make_shared<CreditPool>(3, [] {});
  const Credit a = pool->try_take();
  Credit b = pool->try_take();
  CHECK(join(nullptr, a) == a);
  CHECK(join(a, nullptr) == a);
  CHECK(join(a, a) == a);
  Credit both = join(a, b);
  b.reset();
  CHECK(pool->out() == 2);
  both.reset();
  CHECK(pool->out() == 1);
  CHECK(pool->most_out() == 2);
}

// ---- cuts and resumes ---------------------------------------------------------------------------

TEST_CASE("a batch that the region admitted before the cut is trained on and counted") {
  Training t(4, 50);
  Scheduler* running = nullptr;
  t.in_fwd = [&](Firing&) {
    if (t.read.size() == 6) running->stop();  // in the body of the region's gate
  };
  int after = 0;
  int g = t.b.add("g", buffer_spec(), forward, {{t.step, 0}}, {{"n", 2}});
  t.b.add("k", sink("k"), [&](Firing&) { ++after; }, {{g, 0}});
  REQUIRE(t.b.plan(2));
  const Outcome out = run_planned(t.b, running);
  CHECK(out.status == Outcome::Status::cut);
  CHECK(t.read == t.stepped);
  CHECK(after == 6);
  CHECK(out.position.turn == 1);  // epochs of 4: the cut is in the second, the data run far ahead
  CHECK(out.position.batch == 2);
}

TEST_CASE("a resume goes on behind the last batch trained on, Skips counted") {
  Values whole;
  for (std::size_t stop_at : {0, 1, 2, 3, 4, 5, 6, 7}) {
    Values seen;
    Resume at;
    for (int part = 0; part < 2; ++part) {
      Builder b;
      b.graph.run.epochs = 2;
      Scheduler* running = nullptr;
      int s = b.source("s", 8);
      int filter = b.add("filter", plain("filter"),
                         [](Firing& f) {
                           if (f.in().value % 2) f.emit_ptr(f.ptr());
                         },
                         {{s, 0}});
      int fwd = b.add("fwd", reader_spec(), forward, {{filter, 0}}, {{"net", "net"}});
      b.add("step", updater_spec(),
            [&](Firing& f) {
              seen.push_back(f.in().value);
              if (part == 0 && seen.size() == stop_at) running->stop();
            },
            {{fwd, 0}}, {{"net", "net"}});
      REQUIRE(b.plan(2));
      RunOptions o;
      o.resume = at;
      const Outcome out = run_planned(b, running, o);
      at = out.position;
      if (out.status == Outcome::Status::done) break;
    }
    if (stop_at == 0) whole = seen;
    CHECK(seen == whole);
  }
  CHECK(whole == Values{1, 3, 5, 7, 1, 3, 5, 7});
}

TEST_CASE("a cut while a resume catches up keeps the resume's position") {
  Training t(20, 2);
  Scheduler* running = nullptr;
  t.b.body(t.source).fn = [&](Firing& f) {
    if (f.stamp().index == 3) running->stop();
    f.emit_item(f.stamp().index, Sample(f.stamp().index));
  };
  REQUIRE(t.b.plan(2));
  RunOptions o;
  o.resume = {1, 11};
  const Outcome out = run_planned(t.b, running, o);
  CHECK(t.read.empty());
  CHECK(out.position.turn == 1);
  CHECK(out.position.batch == 11);
}

TEST_CASE("a cut that takes an epoch's last item from its source does not end the epoch") {
  for (const std::uint64_t last : {2, 3}) {
    Training t(4, 2);
    Scheduler* running = nullptr;
    std::atomic<std::uint64_t> admitted{0};
    t.in_fwd = [&](Firing&) { ++admitted; };
    Body& source = t.b.body(t.source);
    source.size = 4;
    source.fn = [&](Firing& f) {
      if (f.stamp().index == 4) return f.end_epoch();
      if (f.stamp().index == last) {
        while (admitted < last) nap(100);
        running->stop();
      }
      f.emit_item(f.stamp().index, Sample(f.stamp().index));
    };
    REQUIRE(t.b.plan(2));
    const Outcome out = run_planned(t.b, running);
    CHECK(out.status == Outcome::Status::cut);
    CHECK(out.position.turn == 0);
    CHECK(out.position.batch == last);
  }
}

TEST_CASE("an epoch without packets whose turn has not come is not flushed by a cut") {
  Training t(10, 3);
  int v = t.validate(t.b.source("v", 3, 100));
  int vb = t.b.add("vb", batch_spec(), join_members, {{v, 0}},
                   {{"size", 8}, {"n", 1}, {"drop_last", true}});  // no batch at all
  int infer = t.b.add("infer", reader_spec(), forward, {{vb, 0}}, {{"net", "net"}});
  std::vector<std::uint32_t> flushed;
  int k = t.b.add("k", sink("k"), [](Firing&) {}, {{infer, 0}});
  t.b.body(k).end = [&](Flush& f) { flushed.push_back(f.epoch); };
  Scheduler* running = nullptr;
  t.in_fwd = [&](Firing&) {
    if (t.read.size() != 14) return;
    nap(20000);  // the validation epochs' markers are at the reader's gate
    running->stop();
  };
  REQUIRE(t.b.plan(2));
  const Outcome out = run_planned(t.b, running);
  CHECK(out.status == Outcome::Status::cut);
  CHECK(flushed == std::vector<std::uint32_t>{0});
  CHECK(out.position.turn == 2);
  CHECK(out.position.batch == 4);
}

TEST_CASE("a cut leaves no trace in a cache, and unfinished bodies are not run for nothing") {
  Builder b;
  b.graph.run.epochs = 100;
  Scheduler* running = nullptr;
  std::atomic<int> loads{0};
  int s = b.source("s", 1000);
  int load = b.add("load", plain("load"),
                   [&](Firing& f) {
                     ++loads;
                     nap(200);
                     f.emit_ptr(f.ptr());
                   },
                   {{s, 0}});
  int cache = b.add("cache", plain("cache").cache(),
                    [&](Firing& f) {
                      if (f.in().value == 10) running->stop();
                      f.emit_ptr(f.ptr());
                    },
                    {{load, 0}});
  b.body(cache).cache = std::make_shared<MemoryStore>();
  auto& store = static_cast<MemoryStore&>(*b.body(cache).cache);
  int batch = b.add("batch", batch_spec(), join_members, {{cache, 0}}, {{"size", 2}, {"n", 1}});
  b.add("k", sink("k"), [](Firing&) { nap(1000); }, {{batch, 0}});
  REQUIRE(b.plan(8));
  RunOptions o;
  o.threads = 8;
  CHECK(run_planned(b, running, o).status == Outcome::Status::cut);
  for (const auto& [item, entry] : store.entries) CHECK(entry.sample != nullptr);
  CHECK(loads < 40);
}

TEST_CASE(
    "look-ups that read files run side by side, and an epoch begins when the last one's ended") {
  Builder b;
  b.graph.run.epochs = 3;
  std::atomic<int> looking{0}, most{0};
  bool overlapped = false;
  const int s = b.add("s", Spec("s", "").out("sample").source(), [&](Firing& f) {
    if (f.stamp().index == 0) overlapped |= looking > 0;
    if (f.stamp().index == 20) return f.end_epoch();
    f.emit_item(f.stamp().index, Sample(f.stamp().index));
  });
  const int cache = b.add("cache", plain("cache").cache(), forward, {{s, 0}});
  auto store = std::make_shared<MemoryStore>();
  store->on_find = [&] {
    const int now = ++looking;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    nap(3000);
    --looking;
  };
  b.body(cache).cache = store;
  Values got;
  b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().value); }, {{cache, 0}});
  REQUIRE(b.plan(4));
  b.made->nodes[static_cast<std::size_t>(s)].credits = 8;
  Values expected;
  for (std::uint64_t i = 0; i < 60; ++i) expected.push_back(i % 20);

  CHECK(run(b, 4).status == Outcome::Status::done);
  CHECK(most == 1);
  CHECK(got == expected);

  got.clear();
  store->files = true;
  CHECK(run(b, 4).status == Outcome::Status::done);
  CHECK(most > 1);
  CHECK_FALSE(overlapped);
  CHECK(got == expected);
}

TEST_CASE("a source makes no item that a cache has, unless another node reads it too") {
  for (const bool also : {false, true}) {
    CAPTURE(also);
    Builder b;
    b.graph.run.epochs = 4;
    std::atomic<int> made{0};
    Values got, beside;
    const int s = b.add("s", Spec("s", "").out("sample").source(), [&](Firing& f) {
      if (f.stamp().index == 5) return f.end_epoch();
      nap(1000);  // the epoch before is in the store
      f.make_item(f.stamp().index, [&] {
        ++made;
        return std::make_shared<const Sample>(f.stamp().index);
      });
    });
    const int cache = b.add("cache", plain("cache").cache(), forward, {{s, 0}});
    b.body(cache).cache = std::make_shared<MemoryStore>();
    b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().value); }, {{cache, 0}});
    if (also) b.add("l", sink("l"), [&](Firing& f) { beside.push_back(f.in().value); }, {{s, 0}});
    CHECK(run(b, 2).status == Outcome::Status::done);
    Values expected;
    for (std::uint64_t i = 0; i < 20; ++i) expected.push_back(i % 5);
    CHECK(got == expected);
    if (also) CHECK(beside == expected);
    CHECK(made == (also ? 20 : 5));
  }
}

TEST_CASE("a Skip of the source itself is not remembered as its first item's") {
  Builder b;
  b.graph.run.epochs = 5;
  Values got;
  int s = b.add("s", Spec("s", "").out("sample").source(), [](Firing& f) {
    if (f.stamp().index == 3) return f.end_epoch();
    nap(2000);  // the epoch before is in the store
    if (f.stamp().index != 1) f.emit_item(f.stamp().index, Sample(f.stamp().index));
  });
  int cache = b.add("cache", plain("cache").cache(), forward, {{s, 0}});
  b.body(cache).cache = std::make_shared<MemoryStore>();
  b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().value); }, {{cache, 0}});
  CHECK(run(b, 2).status == Outcome::Status::done);
  CHECK(got == Values{0, 2, 0, 2, 0, 2, 0, 2, 0, 2});
}

TEST_CASE("a stop behind the last firing cuts nothing: the run is done") {
  Training t(3, 2);
  struct Stopper : RunEvents {
    std::size_t turns = 0;
    bool between(const Turn&, std::size_t) override { return ++turns == 2; }
  } events;
  CHECK(run(t.b, 2, &events).status == Outcome::Status::done);
}

TEST_CASE("a stop before a turn whose samples are all through is a cut") {
  Training t(3, 2);
  const int v = t.validate(t.b.source("v", 2));
  const int k = t.b.add("k", sink("k"), [](Firing&) {}, {{v, 0}});  // reads nothing: runs ahead
  std::atomic<int> flushed{0};
  t.b.body(k).end = [&](Flush&) { ++flushed; };
  t.in_fwd = [&](Firing&) {
    while (flushed < 2) nap(100);
  };
  struct Stopper : RunEvents {
    std::size_t turns = 0;
    bool between(const Turn&, std::size_t) override { return ++turns == 3; }
  } events;
  const Outcome out = run(t.b, 2, &events);
  CHECK(out.status == Outcome::Status::cut);
  CHECK(out.position.turn == 3);
}

// ---- turns --------------------------------------------------------------------------------------

TEST_CASE("no turn ends behind the one that the stop rule named, not even one without samples") {
  Builder b;
  b.graph.run.epochs = 9;
  int s = b.source("s", 2);
  int filter = b.add("filter", plain("filter"), [](Firing&) {}, {{s, 0}});
  b.add("step", updater_spec(), forward, {{filter, 0}}, {{"net", "net"}});
  struct Stopper : RunEvents {
    std::size_t turns = 0;
    bool between(const Turn&, std::size_t) override { return ++turns >= 3; }
  } events;
  const Outcome o = run(b, 2, &events);
  CHECK(o.position.turn == 3);
  CHECK(events.turns == 3);
}

TEST_CASE("a reader must feed the updater of its own network, not that of another") {
  for (const char* reads : {"a", "b"}) {
    Builder b;
    int s = b.source("s", 2);
    int r = b.add("r", reader_spec(), forward, {{s, 0}}, {{"net", "a"}});
    b.add("ua", updater_spec(), forward, {{r, 0}}, {{"net", "a"}});
    int q = b.add("q", reader_spec(), forward, {{s, 0}}, {{"net", reads}});
    b.add("ub", updater_spec(), forward, {{q, 0}}, {{"net", "b"}});
    CHECK(b.plan(2) == (*reads == 'b'));
    if (*reads == 'a') CHECK(b.diagnostics.all().front().code == "SL0411");
  }
}

TEST_CASE("a reader of two networks waits for both, and feeds the updaters of both") {
  const auto of_two = [] {
    Spec spec = reader_spec();
    spec.param("other", &P::net, "").reads("other");
    return spec;
  };
  const Json both{{"net", "a"}, {"other", "b"}};
  for (const bool feeds : {true, false}) {  // in the stream that trains them
    Builder b;
    const int s = b.source("s", 2);
    const int r = b.add("r", of_two(), forward, {{s, 0}}, both);
    const int ua = b.add("ua", updater_spec(), forward, {{r, 0}}, {{"net", "a"}});
    const int q = b.add("q", reader_spec(), forward, {{feeds ? ua : s, 0}}, {{"net", "b"}});
    b.add("ub", updater_spec(), forward, {{q, 0}}, {{"net", "b"}});
    CHECK(b.plan(2) == feeds);
    if (feeds) continue;
    CHECK(b.diagnostics.all().front().code == "SL0411");
    CHECK(b.diagnostics.all().front().message.starts_with("\"r\" reads network \"b\""));
  }
  for (const char* net : {"a", "c"}) {  // beside it: of the trained one, whichever is named first
    Builder b;
    const int s = b.source("s", 2);
    const int r = b.add("r", reader_spec(), forward, {{s, 0}}, {{"net", "b"}});
    b.add("ub", updater_spec(), forward, {{r, 0}}, {{"net", "b"}});
    const int v = b.source("v", 2);
    const int w = b.add("w", of_two(), forward, {{v, 0}}, {{"net", net}, {"other", "b"}});
    b.graph.nodes[static_cast<std::size_t>(v)].after = "ub";
    REQUIRE(b.plan(2));
    CHECK(b.made->nodes[static_cast<std::size_t>(w)].gate);
    CHECK(b.made->nodes[static_cast<std::size_t>(w)].takes_turns);
  }
  Builder b;  // what two streams learn could not be saved at one point of both
  for (const std::string name : {"a", "b"}) {
    const int s = b.source("s" + name, 2);
    const int r = b.add("r" + name, reader_spec(), forward, {{s, 0}}, {{"net", name}});
    b.add("u" + name, updater_spec(), forward, {{r, 0}}, {{"net", name}});
  }
  CHECK_FALSE(b.plan(2));
  REQUIRE(b.diagnostics.all().size() == 1);
  CHECK(b.diagnostics.all().front().code == "SL0415");
  CHECK(b.diagnostics.all().front().message ==
        "\"ub\" and \"ua\" update networks in streams of their own, from \"sb\" and \"sa\"");
}

TEST_CASE("of two readers in a row the first is the region's gate, and both see the same weights") {
  Builder b;
  b.graph.run.epochs = 2;
  std::uint64_t weight = 1;
  Values seen, again, stepped;
  const auto reads = [&](Values& to) {
    return [&weight, &to](Firing& f) {
      to.push_back(weight);
      f.emit_ptr(f.ptr());
    };
  };
  const int s = b.source("s", 6);
  const int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 2}, {"n", 2}});
  const int first = b.add("first", reader_spec(), reads(seen), {{batch, 0}}, {{"net", "net"}});
  const int fwd = b.add("fwd", reader_spec(), reads(again), {{first, 0}}, {{"net", "net"}});
  b.add("step", updater_spec(),
        [&](Firing& f) {
          weight = mix(weight ^ f.in().value);
          stepped.push_back(weight);
          f.emit_ptr(f.ptr());
        },
        {{fwd, 0}}, {{"net", "net"}});
  REQUIRE(b.plan(2));
  const auto node = [&](int i) { return b.made->nodes[static_cast<std::size_t>(i)]; };
  CHECK(node(first).gate);
  CHECK(node(first).credits == 1);
  CHECK_FALSE(node(fwd).gate);
  CHECK(node(fwd).segment == first);
  CHECK(node(fwd).training);
  run(b, 2);
  CHECK(stepped.size() == 6);
  CHECK(seen == again);
  CHECK(Values(seen.begin() + 1, seen.end()) == Values(stepped.begin(), stepped.end() - 1));
}

TEST_CASE("between the region's gate and a further updater a network is read behind its own") {
  for (const bool gated : {true, false})
    for (const bool goes_on : {true, false}) {
      Builder b;
      b.graph.run.epochs = 2;
      std::uint64_t judge = 1;
      Values read, stepped;
      const int s = b.source("s", 6);
      const int make =
          gated ? b.add("make", reader_spec(), forward, {{s, 0}}, {{"net", "maker"}}) : s;
      const int step = b.add("judge_step", updater_spec(),
                             [&](Firing& f) {
                               judge = mix(judge ^ f.in().value);
                               stepped.push_back(judge);
                               f.emit_ptr(f.ptr());
                             },
                             {{make, 0}}, {{"net", "judge"}});
      const int judged = b.add("judged", reader_spec(),
                               [&](Firing& f) {
                                 read.push_back(judge);
                                 f.emit_ptr(f.ptr());
                               },
                               {{step, 0}}, {{"net", "judge"}});
      b.add("maker_step", updater_spec(), forward, {{goes_on ? judged : step, 0}},
            {{"net", "maker"}});
      CAPTURE(gated);
      CAPTURE(goes_on);
      if (!gated || !goes_on) {
        CHECK_FALSE(b.plan(2));
        CHECK(b.diagnostics.all().front().code == "SL0411");
        continue;
      }
      REQUIRE(b.plan(2));
      CHECK(b.made->nodes[static_cast<std::size_t>(judged)].segment == make);
      CHECK_FALSE(b.made->nodes[static_cast<std::size_t>(judged)].gate);
      for (const int threads : {1, 2, 8}) {
        CAPTURE(threads);
        read.clear();
        stepped.clear();
        CHECK(run(b, threads).status == Outcome::Status::done);
        CHECK(read.size() == 12);
        CHECK(read == stepped);
      }
    }
}

TEST_CASE("a turn ends though its sink's epochs are told in the wrong order") {
  Training t(3, 3);
  int v = t.validate(t.b.source("v", 2));
  int k = t.b.add("k", sink("k"), [](Firing&) {}, {{v, 0}});  // reads nothing: runs ahead
  REQUIRE(t.b.plan(2));
  Turnstile turns(*t.b.made, 0, [](const Turn&) { return false; });
  turns.closed(k, 1, false);
  turns.closed(k, 0, false);
  for (const std::uint32_t epoch : {0, 1})
    for (const int node : training_region(*t.b.made)) turns.closed(node, epoch, false);
  CHECK(turns.position() == 4);
}

TEST_CASE("an updater that no reader stands in front of waits for its turn too") {
  for (int threads : {1, 2, 8}) {
    Builder b;
    b.graph.run.epochs = 6;
    std::vector<char> order;
    std::mutex mutex;
    auto note = [&](char c) {
      std::lock_guard lock(mutex);
      order.push_back(c);
    };
    int t = b.source("t", 2);
    b.add("step", updater_spec(LaneKind::compute), [&](Firing&) { note('t'); }, {{t, 0}},
          {{"net", "net"}});
    int v = b.source("v", 2);
    b.graph.nodes[static_cast<std::size_t>(v)].after = "step";
    int infer = b.add("infer", reader_spec(LaneKind::compute),
                      [&](Firing& f) {
                        nap(500);
                        note('v');
                        f.emit_ptr(f.ptr());
                      },
                      {{v, 0}}, {{"net", "net"}});
    b.add("k", sink("k"), [](Firing&) {}, {{infer, 0}});
    b.graph.nodes[1].params["net"] = "net";
    CHECK(run(b, threads).status == Outcome::Status::done);
    CHECK(std::string(order.begin(), order.end()) == "ttvvttvvttvvttvvttvvttvv");
  }
}

// ---- what nodes may emit ------------------------------------------------------------------------

TEST_CASE("emitting on a port that is not there fails the run instead of the process") {
  Builder b;
  int s = b.source("s", 3);
  b.add("k", sink("k"), [](Firing& f) { f.emit_ptr(f.ptr()); }, {{s, 0}});
  const Outcome o = run(b, 2);
  CHECK(o.status == Outcome::Status::failed);
  CHECK(o.failure.node == "k");
  CHECK(o.failure.exit == Exit::usage);
  CHECK(Sample::live == 0);
}

TEST_CASE("a node may emit on one port and say why the other has nothing") {
  Builder b;
  Values a, c;
  int s = b.add("s", Spec("s", "").out("a").out("c").source(), [](Firing& f) {
    if (f.stamp().index == 6) return f.end_epoch();
    f.emit_item(f.stamp().index, Sample(f.stamp().index));
    if (f.stamp().index % 2) f.emit_ptr(std::make_shared<const Sample>(100 + f.stamp().index), 1);
  });
  int x = b.add("x", Spec("x", "").in("sample").out("a").out("c"),
                [](Firing& f) {
                  f.skip("odd");
                  if (f.in().value % 2 == 0) f.emit_ptr(f.ptr(), 1);
                },
                {{s, 0}});
  b.add("k", sink("k"), [&](Firing& f) { a.push_back(f.in().value); }, {{x, 1}});
  int l = b.add("l", sink("l"), [&](Firing& f) { c.push_back(f.in().value); }, {{s, 1}});
  REQUIRE(b.plan(2));
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler sched(*b.made, b.pointers(), o, silent);
  CHECK(sched.run().status == Outcome::Status::done);
  CHECK(a == Values{0, 2, 4});
  CHECK(c == Values{101, 103, 105});
  CHECK(sched.ledger(l).skipped.at("filtered") == 3);
  CHECK(losses(sched, {x}, "odd") == Values{3});
}

TEST_CASE("an optional port that nothing is connected to gives null") {
  Builder b;
  int nulls = 0;
  int s = b.source("s", 3);
  b.add("k", Spec("k", "").in("sample").in_optional("mask").ordered(),
        [&](Firing& f) { nulls += !f.ptr(1) && !f.connected(1) && f.connected(0); }, {{s, 0}});
  CHECK(run(b, 2).status == Outcome::Status::done);
  CHECK(nulls == 3);
}

// ---- failures -----------------------------------------------------------------------------------

TEST_CASE("a turn ends when its region has told what it measured, however slow that is") {
  for (const bool behind_updater : {false, true}) {
    Training t(3, 3);
    const int m =
        t.b.add("m", sink("m").ordered(), [](Firing&) {}, {{behind_updater ? t.step : t.fwd, 0}});
    t.b.body(m).end = [](Flush& f) {
      nap(30'000);  // on another lane than the updater's
      f.metric("mean", 1);
    };
    struct Told : RunEvents {
      std::mutex mutex;
      std::set<std::uint32_t> epochs;
      std::vector<std::size_t> at_turns;
      void metric(int, std::uint32_t epoch, const std::string&, double) override {
        const std::lock_guard lock(mutex);
        epochs.insert(epoch);
      }
      bool between(const Turn&, std::size_t) override {
        const std::lock_guard lock(mutex);
        at_turns.push_back(epochs.size());
        return false;
      }
    } told;
    CHECK(run(t.b, 2, &told).status == Outcome::Status::done);
    CHECK(told.at_turns == std::vector<std::size_t>{1, 2, 3});
  }
}

TEST_CASE("what a hook between two turns throws ends the run with its exit code") {
  Training t(3, 2);
  struct Full : RunEvents {
    bool between(const Turn&, std::size_t) override { throw IoError("no space left"); }
  } events;
  const Outcome o = run(t.b, 2, &events);
  CHECK(o.status == Outcome::Status::failed);
  CHECK(o.failure.exit == Exit::io);
  CHECK(o.failure.message == "no space left");
  CHECK(Sample::live == 0);
}

TEST_CASE("of two nodes that fail on one sample the same one is named whatever the timing") {
  for (int i = 0; i < 30; ++i) {
    Builder b;
    std::atomic<int> in{0};
    auto fails = [&](Firing& f) {
      if (f.in().value != 2) return f.emit_ptr(f.ptr());
      for (++in; in < 2;) nap(10);
      throw DataError("planted");
    };
    int s = b.source("s", 9);
    b.add("y", plain("y"), fails, {{s, 0}});
    b.add("x", plain("x").lane(LaneKind::io), fails, {{s, 0}});
    CHECK(run(b, 4).failure.node == "x");
  }
}

TEST_CASE("the quarantine budget is judged in stamp order at the epoch's end") {
  for (int i = 0; i < 20; ++i) {
    Builder b;
    int s = b.source("s", 20);
    int x = b.add("x", plain("x"),
                  [i](Firing& f) {
                    nap(mix(f.in().value * 100 + static_cast<std::uint64_t>(i)) % 300);
                    if (f.in().value % 5 == 2) throw DataError("bad");
                    f.emit_ptr(f.ptr());
                  },
                  {{s, 0}});
    b.graph.nodes[static_cast<std::size_t>(x)].on_error = OnError::quarantine;
    b.graph.nodes[static_cast<std::size_t>(x)].max_bad = 2;
    const Outcome o = run(b, 8);
    CHECK(o.status == Outcome::Status::failed);
    CHECK(o.failure.sample == "v12");
  }
}

TEST_CASE("a sample that is bad in every epoch counts once against the budget") {
  for (const int allowed : {3, 4}) {
    CAPTURE(allowed);
    Builder b;
    b.graph.run.epochs = 5;
    const int s = b.source("s", 20);
    const int crop = b.add("crop", expand_spec(),
                           [](Firing& f) {
                             for (std::uint64_t i = 0; i < 2; ++i) f.emit(Sample(f.in().value));
                           },
                           {{s, 0}}, {{"n", 2}});
    const int x = b.add("x", plain("x"),
                        [](Firing& f) {
                          if (f.in().value % 10 == 2) throw DataError("bad");  // two, of two crops
                          f.emit_ptr(f.ptr());
                        },
                        {{crop, 0}});
    b.graph.nodes[static_cast<std::size_t>(x)].on_error = OnError::quarantine;
    b.graph.nodes[static_cast<std::size_t>(x)].max_bad = allowed;
    const Outcome o = run(b, 4);
    CHECK(o.status == (allowed == 4 ? Outcome::Status::done : Outcome::Status::failed));
    if (allowed == 3) CHECK(o.failure.stamp.str() == "0/0/12.1");
  }
}

TEST_CASE("of a batch nobody knows which member is bad, so it counts in every epoch") {
  Training t(4, 3, 2);
  t.in_fwd = [](Firing& f) {
    if (f.stamp().index == 1) throw DataError("bad");
  };
  t.b.graph.nodes[static_cast<std::size_t>(t.fwd)].on_error = OnError::quarantine;
  const auto status_with = [&](int allowed) {
    t.b.graph.nodes[static_cast<std::size_t>(t.fwd)].max_bad = allowed;
    return run(t.b, 2).status;
  };
  CHECK(status_with(3) == Outcome::Status::done);
  CHECK(status_with(2) == Outcome::Status::failed);
}

TEST_CASE("a run that is resumed knows which samples were bad in the epochs before") {
  const auto status_after = [](const std::string& item, std::uint32_t epoch) {
    Training t(4, 3);
    t.in_fwd = [](Firing& f) {
      if (f.in().members.front() == 1) throw DataError("bad");
    };
    t.b.graph.nodes[static_cast<std::size_t>(t.fwd)].on_error = OnError::quarantine;
    t.b.graph.nodes[static_cast<std::size_t>(t.fwd)].max_bad = 1;
    REQUIRE(t.b.plan(2));
    RunOptions options;
    options.resume.turn = 1;
    options.quarantined = {{"fwd", "", "", Stamp::first(0, epoch, 0), item}};
    Scheduler* running = nullptr;
    return run_planned(t.b, running, options).status;
  };
  CHECK(status_after("1", 0) == Outcome::Status::done);
  CHECK(status_after("3", 0) == Outcome::Status::failed);
  CHECK(status_after("3", 1) == Outcome::Status::done);  // of the epoch that begins anew
}

TEST_CASE("a run that stands still fires nothing while it is taken down") {
  Builder b;
  std::atomic<int> fired{0};
  int s = b.source("s", 50);
  int l = b.add("l", plain("l"), [&](Firing& f) { ++fired, f.emit_ptr(f.ptr()); }, {{s, 0}});
  int r = b.add("r", plain("r"), [&](Firing& f) { ++fired, f.emit_ptr(f.ptr()); }, {{s, 0}});
  b.add("j", Spec("j", "").in("a").in("b"), [](Firing&) {}, {{l, 0}, {r, 0}});
  REQUIRE(b.plan(2));
  b.made->nodes[static_cast<std::size_t>(r)].outs[0][0].port = 9;  // an edge into nowhere
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler sched(*b.made, b.pointers(), o, silent);
  const Outcome out = sched.run();
  CHECK(out.status == Outcome::Status::stalled);
  CHECK(out.stall.find("j (j)") != std::string::npos);
  CHECK(out.stall.find("waits on port \"b\" for 0/0/0") != std::string::npos);
  CHECK(fired == 2 * b.made->nodes[static_cast<std::size_t>(s)].credits);
  CHECK(Sample::live == 0);
}

// ---- lanes --------------------------------------------------------------------------------------

TEST_CASE(
    "data threads run in the background, and the caller and the step lane keep their priority") {
  const int mine = priority_of_this_thread();
  std::mutex mutex;
  std::set<int> data, step;
  auto note = [&](std::set<int>& where) {
    return [&](Firing& f) {
      std::lock_guard lock(mutex);
      where.insert(priority_of_this_thread());
      f.emit_ptr(f.ptr());
    };
  };
  Builder b;
  int s = b.source("s", 20);
  int x = b.add("x", plain("x"), note(data), {{s, 0}});
  int y = b.add("y", plain("y").lane(LaneKind::io), note(data), {{x, 0}});
  b.add("z", plain("z").lane(LaneKind::step), note(step), {{y, 0}});
  REQUIRE(b.plan(2));
  RunEvents silent;
  Scheduler sched(*b.made, b.pointers(), {}, silent);
  CHECK(sched.run().status == Outcome::Status::done);
  CHECK(data == std::set<int>{19});
  CHECK(step == std::set<int>{mine});
  CHECK(priority_of_this_thread() == mine);
}

// ---- standing still -----------------------------------------------------------------------------

TEST_CASE("the watchdog tells of a body without an end, and who waits for it") {
  Builder b;
  std::atomic<bool> let_go{false};
  struct Watch : RunEvents {
    std::atomic<bool>* let_go;
    std::string report;
    void stalled(const std::string& text) override {
      if (report.empty()) report = text;
      *let_go = true;  // a run proper would end the process here
    }
  } events;
  events.let_go = &let_go;
  int s = b.source("s", 10);
  int x = b.add("x", plain("x"),
                [&](Firing& f) {
                  while (f.in().value == 4 && !let_go) nap(1000);
                  f.emit_ptr(f.ptr());
                },
                {{s, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{x, 0}});
  RunOptions o;
  o.watchdog_s = 0.2;
  CHECK(run(b, 2, &events, o).status == Outcome::Status::done);
  CHECK(events.report.find("x (x): epoch 0, ") != std::string::npos);
  CHECK(events.report.find(" dealt with, 1 running, works on v4 (0/0/4) for 0.") !=
        std::string::npos);
  CHECK(events.report.find("k (k): epoch 0, 4 dealt with, next is 0/0/4") != std::string::npos);
}

TEST_CASE("time in which threads wait for a processor is no standstill") {
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  std::atomic<bool> over{false};
  std::vector<std::thread> busy;  // of which one runs at a time
  for (int i = 0; i < 4; ++i)
    busy.emplace_back([&] {
      sched_setaffinity(0, sizeof one, &one);
      while (!over) continue;
    });
  const auto seconds = [](Standstill& s, double limit) {
    const auto begin = std::chrono::steady_clock::now();
    while (!s.longer_than(limit, 1)) nap(5000);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Standstill starved;
  CHECK(seconds(starved, 0.4) > 1);  // each of them waits for three quarters of it
  over = true;
  for (std::thread& t : busy) t.join();
  Standstill moving;
  for (std::uint64_t progress = 0; progress < 20; ++progress) {
    nap(5000);
    CHECK_FALSE(moving.longer_than(3600, progress));
  }
}

// ---- overlap, by counted order ------------------------------------------------------------------

TEST_CASE("a buffer lets its producer run ahead by as many as it has credits, and no further") {
  for (int credits : {1, 4}) {
    Builder b;
    std::atomic<int> produced{0}, consumed{0}, most{0};
    int s = b.source("s", 60);
    int buffer = b.add("ahead", buffer_spec(),
                       [&](Firing& f) {
                         most = std::max<int>(most, ++produced - consumed);
                         f.emit_ptr(f.ptr());
                       },
                       {{s, 0}}, {{"n", credits}});
    b.add("use", sink("use").lane(LaneKind::step),
          [&](Firing& f) {
            // The next one is made while this one is used, or, with one credit, is not.
            const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
            const int ahead = static_cast<int>(f.in().value) + credits;
            while (produced < std::min(60, ahead) && std::chrono::steady_clock::now() < last)
              nap(50);
            CHECK(produced == std::min(60, ahead));
            ++consumed;
          },
          {{buffer, 0}});
    CHECK(run(b, 2).status == Outcome::Status::done);
    CHECK(most == credits);
  }
}

TEST_CASE("no data body stands between two firings of the step lane") {
  Builder b;
  std::atomic<int> steps{0};
  std::atomic<bool> blocked{false}, begun{false};
  auto n = b.add("n", Spec("n", "").out("sample").source(), [&](Firing& f) {
    if (f.stamp().index == 1) return f.end_epoch();
    begun = true;
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (steps < 20 && std::chrono::steady_clock::now() < last) nap(200);
    blocked = steps < 20;  // the only data thread is here all the while
    f.emit_item(0, Sample(0));
  });
  b.add("l", sink("l"), [](Firing&) {}, {{n, 0}});
  int s = b.add("s", Spec("s", "").out("sample").source().lane(LaneKind::step), [&](Firing& f) {
    while (!begun) nap(100);
    if (f.stamp().index == 20) return f.end_epoch();
    f.emit_item(f.stamp().index, Sample(0));
  });
  int x = b.add("x", plain("x").lane(LaneKind::step), forward, {{s, 0}});
  b.add("k", sink("k").lane(LaneKind::step), [&](Firing&) { ++steps; }, {{x, 0}});
  CHECK(run(b, 1).status == Outcome::Status::done);
  CHECK(!blocked);
}
