// Lanes that queue their work on a device, here a simulated one: what is protected, and that a
// protection that is left out is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <map>
#include <set>

#include "engine/judge/figures.h"
#include "engine/run/simulated_device.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

using Words = std::vector<std::uint64_t>;

struct Moves {
  std::string device = "auto";
};
Spec up_spec() {
  return plain("up")
      .param("n", &P::n, "")
      .param("device", &Moves::device, "")
      .gate("n")
      .lane(LaneKind::copy)
      .moves("device")
      .any_device();
}

SimulatedStream& stream_of(const Firing& f) { return static_cast<SimulatedStream&>(*f.stream()); }

// A sample whose value lies, or will lie, on the device.
std::shared_ptr<Sample> on_device(Pool& pool) {
  auto sample = std::make_shared<Sample>();
  sample->memory = pool.take();
  return sample;
}

// Training with all that a device can get wrong: pinned slots, a cache after the copy, a region
// that runs ahead, a checkpoint between turns, validation, metrics on the host.
//
//   s ─▶ up (copy lane) ─▶ kept (a cache) ─▶ fwd (step lane) ─▶ upd      v ─▶ vup ─▶ infer ─▶ dice
//                                              └▶ metric (host)
struct Training {
  static constexpr std::uint64_t items = 5;  // each is asked for twice, one after the other
  static constexpr std::uint32_t epochs = 3;

  Pool memory, pinned;
  Builder b;
  std::atomic<std::uint64_t> weight{1};
  std::atomic<int> queued{0}, done{0}, most_ahead{0};
  std::vector<std::uint64_t> measured, validated, logged, checkpoints;
  std::set<std::string> wrong;  // what was found
  Outcome outcome;

  struct Events final : RunEvents {
    Training& t;
    explicit Events(Training& training) : t(training) {}
    bool between(const Turn& ended, std::size_t) override {
      if (ended.stream == 0) t.checkpoints.push_back(t.weight);
      return false;
    }
    void log(int, const Stamp&, const std::string&, double value) override {
      t.logged.push_back(static_cast<std::uint64_t>(value));
    }
  };

  void copy(Firing& f) {
    const auto slot = pinned.take();  // memory of the host
    f.stream()->keep(slot);
    slot->view.write({f.in().value});
    auto out = on_device(memory);
    stream_of(f).queue([from = slot->view, to = out->memory->view] { to.write(from.read()); });
    f.emit_ptr(std::move(out));
  }

  void forward(Firing& f) {
    const int now = ++queued - done;
    for (int m = most_ahead; now > m && !most_ahead.compare_exchange_weak(m, now);) {
    }
    infer(f);
  }
  void infer(Firing& f) {
    auto out = on_device(memory);
    stream_of(f).queue([this, x = f.in().memory->view, to = out->memory->view] {
      nap(100);
      to.write({mix(x.read().front() ^ weight)});
    });
    f.emit_ptr(std::move(out));
  }
  void update(Firing& f) {
    const View x = f.in().memory->view;
    stream_of(f).queue([this, x] {
      weight = mix(weight + x.read().front());
      ++done;
    });
    f.log_later("loss", [x] { return static_cast<double>(x.read().front() >> 20); });
  }
  static void read(std::vector<std::uint64_t>& into, const Firing& f) {
    into.push_back(f.in().memory->view.read().front());
  }

  Training() {
    b.graph.run.epochs = epochs;
    const int s = b.add("s", Spec("source", "").out("sample").source(), [](Firing& f) {
      if (f.stamp().index == 2 * items) return f.end_epoch();
      f.emit_item(f.stamp().index / 2, Sample(100 + f.stamp().index / 2));
    });
    const auto to_device = [this](Firing& f) { copy(f); };
    const int up = b.add("up", up_spec(), to_device, {{s, 0}}, {{"n", 2}, {"device", "auto"}});
    const int kept =
        b.add("kept", plain("kept").any_device().passes().cache(), toy::forward, {{up, 0}});
    b.body(kept).cache = std::make_shared<MemoryStore>();
    const int fwd = b.add("fwd", reader_spec().any_device(), [this](Firing& f) { forward(f); },
                          {{kept, 0}}, {{"net", "net"}});
    const int upd = b.add("upd", updater_spec().any_device(), [this](Firing& f) { update(f); },
                          {{fwd, 0}}, {{"net", "net"}});
    (void)upd;
    b.add("metric", sink("metric").any_device(), [this](Firing& f) { read(measured, f); },
          {{fwd, 0}});
    const int v = b.source("v", 3, 500);
    b.graph.nodes[static_cast<std::size_t>(v)].after = "upd";
    const int vup = b.add("vup", up_spec(), to_device, {{v, 0}}, {{"n", 2}, {"device", "auto"}});
    const int inf = b.add("infer", reader_spec().any_device(), [this](Firing& f) { infer(f); },
                          {{vup, 0}}, {{"net", "net"}});
    b.add("dice", sink("dice").any_device(), [this](Firing& f) { read(validated, f); }, {{inf, 0}});
  }

  // What the same computations give one after the other.
  void compare() {
    std::uint64_t w = 1;
    Words measured_, validated_, logged_, checkpoints_;
    for (std::uint32_t e = 0; e < epochs; ++e) {
      for (std::uint64_t i = 0; i < 2 * items; ++i) {
        const std::uint64_t y = mix((100 + i / 2) ^ w);
        measured_.push_back(y);
        logged_.push_back(y >> 20);
        w = mix(w + y);
      }
      checkpoints_.push_back(w);
      for (std::uint64_t i = 0; i < 3; ++i) validated_.push_back(mix((500 + i) ^ w));
    }
    if (measured != measured_) wrong.insert("metric");
    if (logged != logged_) wrong.insert("log");
    if (checkpoints != checkpoints_) wrong.insert("checkpoint");
    if (validated != validated_) wrong.insert("validation");
    if (pinned.races > 0) wrong.insert("slot: " + pinned.first);
    if (memory.races > 0) wrong.insert("memory: " + memory.first);
    if (most_ahead > 3) wrong.insert("too far ahead");
  }

  void run(int threads, const SimulatedSettings& settings) {
    SimulatedDevice device(settings);
    Events events(*this);
    RunOptions o;
    o.device = &device;
    REQUIRE_MESSAGE(b.plan(threads), b.diagnostics.to_json().dump());
    for (PlanNode& n : b.made->nodes)
      if (n.path() == "kept") n.lane = LaneKind::copy;
    outcome = toy::run(b, threads, &events, o);
    compare();
  }
};

// What is found in so many runs with something left out.
std::set<std::string> found_with(SimulatedSettings settings) {
  std::set<std::string> all;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    settings.seed = seed;
    Training t;
    t.run(4, settings);
    all.insert(t.wrong.begin(), t.wrong.end());
  }
  return all;
}

bool has(const std::set<std::string>& found, const std::string& what) {
  return std::any_of(found.begin(), found.end(),
                     [&](const std::string& f) { return f.starts_with(what); });
}

std::string list(const std::set<std::string>& all) {
  std::string text;
  for (const auto& one : all) text += one + ", ";
  return text;
}

}  // namespace

TEST_CASE("training on a device gives what the same steps one after the other give") {
  for (int threads : {1, 2, 8})
    for (std::uint64_t nap : {0, 30, 400}) {
      Training t;
      t.run(threads, {.seed = nap, .nap_us = nap});
      CHECK(t.outcome.status == Outcome::Status::done);
      INFO(list(t.wrong));
      CHECK(t.wrong.empty());
    }
  CHECK(Sample::live == 0);
}

TEST_CASE("a training region runs two steps ahead of the device, and no more") {
  Training t;
  t.b.nodes[5] = std::make_unique<Body>();  // a metric that waits for the device holds the host up
  static_cast<Body&>(*t.b.nodes[5]).fn = [](Firing&) {};
  t.b.graph.nodes[5].spec =
      (t.b.specs.push_back(std::make_unique<Spec>(
           Spec("sink", "").in("sample").ordered().any_device().lane(LaneKind::step))),
       t.b.specs.back().get());
  t.run(2, {.seed = 1, .nap_us = 500});
  CHECK(t.outcome.status == Outcome::Status::done);
  CHECK(t.most_ahead == 3);  // the step at work, and two
}

TEST_CASE("a stream that does not wait for the other is found") {
  const auto found = found_with({.nap_us = 400, .forget_stream_waits = true});
  INFO(list(found));
  CHECK(has(found, "memory: read before it was made"));
  CHECK(has(found, "metric"));
}

TEST_CASE("a pinned slot that goes back before its copy is found") {
  const auto found =
      found_with({.nap_us = 400, .forget_host_waits = [](int stream) { return stream == 0; }});
  INFO(list(found));
  CHECK(has(found, "slot: "));
}

// An item is asked for again as soon as the store has it; a hit carries no mark.
static int early_hits(const SimulatedSettings& settings) {
  Pool memory;
  Builder b;
  auto store = std::make_shared<MemoryStore>();
  const int s = b.add("s", Spec("source", "").out("sample").source(), [&](Firing& f) {
    if (f.stamp().index == 2) return f.end_epoch();
    while (f.stamp().index == 1 && !store->find(7)) nap(20);
    f.emit_item(7, Sample(1));
  });
  const auto slow_copy = [&](Firing& f) {
    auto out = on_device(memory);
    stream_of(f).queue([to = out->memory->view] {
      nap(20000);
      to.write({1});
    });
    f.emit_ptr(std::move(out));
  };
  const int up = b.add("up", up_spec(), slow_copy, {{s, 0}}, {{"n", 2}, {"device", "auto"}});
  const int kept =
      b.add("kept", plain("kept").passes().any_device().cache(), toy::forward, {{up, 0}});
  b.body(kept).cache = store;
  const auto read_the_hit = [](Firing& f) {
    if (f.stamp().index == 1) f.in().memory->view.read();
  };
  b.add("k", sink("k").any_device(), read_the_hit, {{kept, 0}});
  REQUIRE(b.plan(2));
  b.made->nodes[static_cast<std::size_t>(kept)].lane = LaneKind::copy;
  SimulatedDevice device(settings);
  RunOptions o;
  o.device = &device;
  CHECK(toy::run(b, 2, nullptr, o).status == Outcome::Status::done);
  const int races = memory.races;
  b.nodes.clear();
  store.reset();
  return races;
}

TEST_CASE("an entry that is stored before its copy is found") {
  CHECK(early_hits({.nap_us = 50}) == 0);
  CHECK(early_hits({.nap_us = 50, .forget_host_waits = [](int) { return true; }}) > 0);
}

TEST_CASE(
    "inputs let go, metrics, checkpoints and steps that do not wait for the device are found") {
  const auto found =
      found_with({.nap_us = 400, .forget_host_waits = [](int stream) { return stream == 1; }});
  INFO(list(found));
  CHECK(has(found, "memory: "));
  CHECK(has(found, "metric"));
  CHECK(has(found, "log"));
  CHECK(has(found, "checkpoint"));
  CHECK(has(found, "too far ahead"));
}

TEST_CASE("a device that fails ends the run as a GPU error and leaves nothing") {
  Training t;
  const auto fails = t.b.nodes.size();
  (void)fails;
  static_cast<Body&>(*t.b.nodes[4]).fn = [&](Firing& f) {
    t.update(f);
    if (f.stamp().epoch == 1 && f.stamp().index == 3)
      stream_of(f).queue([] { throw std::runtime_error("an illegal address"); });
  };
  t.run(2, {.seed = 3, .nap_us = 50});
  CHECK(t.outcome.status == Outcome::Status::failed);
  CHECK(t.outcome.failure.exit == Exit::gpu);
  CHECK(t.outcome.failure.message == "an illegal address");
  t.b.nodes.clear();
  CHECK(t.memory.out == 0);
  CHECK(t.pinned.out == 0);
}

TEST_CASE("what is read when the device is done fails with the node and the sample") {
  Builder b;
  const int s = b.source("s", 20);
  b.add("k", sink("k").lane(LaneKind::step),
        [](Firing& f) {
          f.log_later("loss", [&f] {
            if (f.in().value == 7) throw Error(Exit::non_finite, "the loss is nan");
            return 0.0;
          });
        },
        {{s, 0}});
  SimulatedDevice device({.nap_us = 100});
  RunOptions o;
  o.device = &device;
  const Outcome out = toy::run(b, 2, nullptr, o);
  CHECK(out.status == Outcome::Status::failed);
  CHECK(out.failure.exit == Exit::non_finite);
  CHECK(out.failure.node == "k");
  CHECK(out.failure.sample == "v7");
}

TEST_CASE("the report of a stall says what waits for the device") {
  Builder b;
  std::promise<void> stuck;
  const int s = b.source("s", 3);
  const int x = b.add("x", plain("x").lane(LaneKind::step),
                      [&](Firing& f) {
                        if (f.in().value == 1)
                          stream_of(f).queue([&] { stuck.get_future().wait(); });
                        f.emit(Sample(f.in().value));
                      },
                      {{s, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{x, 0}});
  struct Events final : RunEvents {
    std::promise<void>& release;
    std::string report;
    explicit Events(std::promise<void>& p) : release(p) {}
    void stalled(const std::string& text) override {
      if (report.empty()) release.set_value();
      report += text;
    }
  } events(stuck);
  SimulatedDevice device({.nap_us = 0});
  RunOptions o;
  o.device = &device;
  o.watchdog_s = 0.2;
  CHECK(toy::run(b, 2, &events, o).status == Outcome::Status::done);
  INFO(events.report);
  CHECK(
      events.report.find("x (x): epoch 0, 3 dealt with of 3, 2 running, 2 of its firings wait for "
                         "the device") != std::string::npos);
  CHECK(events.report.find("2 of its samples wait for the device") != std::string::npos);
}

TEST_CASE("behind to_device what can works on the copy lane, where there is a device") {
  const auto lanes = [](bool device) {
    Builder b;
    const auto pass = [](const char* name) { return plain(name).passes().any_device(); };
    const int s = b.source("s", 3);
    const int before = b.add("before", pass("before"), toy::forward, {{s, 0}});
    const int up =
        b.add("up", up_spec(), toy::forward, {{before, 0}}, {{"n", 2}, {"device", "auto"}});
    const int behind = b.add("behind", pass("behind"), toy::forward, {{up, 0}});
    for (const LaneKind lane : {LaneKind::io, LaneKind::step}) {  // theirs is theirs
      const std::string name = lane == LaneKind::io ? "io" : "step";
      const int own = b.add(name, pass("own").lane(lane), toy::forward, {{up, 0}});
      b.add(name + "_k", sink("k").any_device(), [](Firing&) {}, {{own, 0}});
    }
    const int down =
        b.add("down", up_spec(), toy::forward, {{behind, 0}}, {{"n", 2}, {"device", "cpu"}});
    const int host = b.add("host", plain("host").passes(), toy::forward, {{down, 0}});
    b.add("k", sink("k").any_device(), [](Firing&) {}, {{behind, 0}});
    b.add("k2", sink("k2"), [](Firing&) {}, {{host, 0}});
    Diagnostics diagnostics;
    const auto plan = make_plan(b.graph, {2, device}, diagnostics);
    REQUIRE(plan);
    std::string text;
    for (const PlanNode& n : plan->nodes)
      if (n.lane == LaneKind::copy) text += n.path() + " ";
    return text;
  };
  CHECK(lanes(false) == "up down ");
  CHECK(lanes(true) == "up behind down ");
}

TEST_CASE("the time that a device was at work on what a node queued is the node's") {
  Builder b;
  const int s = b.source("s", 20);
  std::atomic<std::int64_t> slept{0};
  const auto queue = [&](Firing& f) {
    stream_of(f).queue([&] {
      const std::int64_t begin = now_ns();
      nap(2000);
      slept += now_ns() - begin;
    });
    f.emit_ptr(std::make_shared<Sample>(f.in().value));
  };
  const auto queue_and_look = [&](Firing& f) {
    queue(f);
    f.when_done([] { nap(5000); });  // so the host sees late that the second is done
  };
  const int first =
      b.add("first", plain("first").lane(LaneKind::step).any_device(), queue_and_look, {{s, 0}});
  const int second =
      b.add("second", plain("second").lane(LaneKind::step).any_device(), queue, {{first, 0}});
  b.add("k", sink("k"), [](Firing&) {}, {{second, 0}});
  SimulatedDevice device({.nap_us = 0});
  RunOptions o;
  o.device = &device;
  REQUIRE(b.plan());
  RunEvents events;
  Scheduler scheduler(*b.made, b.pointers(), o, events);
  CHECK(scheduler.run().status == Outcome::Status::done);
  const auto r = scheduler.readings();
  const auto at = [&](int node) { return r[static_cast<std::size_t>(node)]; };
  // A stream does one thing after the other, so what two nodes queue there never counts twice.
  CHECK(at(first).device_ns + at(second).device_ns >= slept.load());
  CHECK(static_cast<double>(at(first).device_ns + at(second).device_ns) <=
        1e9 * scheduler.wall_s());
  CHECK(at(first).device_ns >= 20 * 2'000'000);
  CHECK(at(second).device_ns >= 20 * 2'000'000);
  CHECK(at(first).p50_ns >= 2'000'000 * 7 / 8);  // of a firing: of the device, not of queueing
  CHECK(at(s).device_ns == 0);
  const auto slow = scheduler.counters(second).slowest.sorted();
  REQUIRE(!slow.empty());
  CHECK(slow.front().ns >= 2'000'000);
  const Figures f = Figures::between(*b.made, {2, 2}, std::vector<Reading>(r.size()), r);
  CHECK(f.nodes[static_cast<std::size_t>(first)].host_s > 0);
  CHECK(f.nodes[static_cast<std::size_t>(s)].host_s == 0);
}
