// Lists that a 1:n node leaves to be made (Firing::emit_each): as long as they may be, only what
// the next gates are about to take is there.
#include <doctest/doctest.h>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

constexpr int ahead = 4;

RunOptions options() {
  RunOptions o;
  o.ahead = ahead;
  return o;
}

SamplePtr metered(std::uint64_t value, Meter& meter) {
  return std::make_shared<const Sample>(value, std::vector<std::uint64_t>{}, &meter);
}

// n children of each of three samples, the i-th of sample s with the value 100000 s + i.
struct Listed : Builder {
  Meter meter;
  int list = 0;
  explicit Listed(std::size_t n, std::uint64_t sources = 3, Spec spec = expand_spec()) {
    const int s = source("s", sources);
    list = add("list", std::move(spec),
               [this, n](Firing& f) {
                 f.emit_each(n, [this, from = f.in().value * 100000](std::size_t i) {
                   return metered(from + i, meter);
                 });
               },
               {{s, 0}}, {{"n", 1}});
  }
};

struct Keeps final : RunEvents {
  std::vector<Quarantined> bad;
  void quarantined(const Quarantined& q) override { bad.push_back(q); }
};

// A run that is stopped from within, or whose counts are looked at behind it.
struct Watched {
  RunEvents events;
  std::optional<Scheduler> scheduler;
  Outcome run(Builder& b, int threads) {
    REQUIRE(b.plan(threads));
    RunOptions o = options();
    o.threads = threads;
    return scheduler.emplace(*b.made, b.pointers(), o, events).run();
  }
};

}  // namespace

TEST_CASE("a list is made as the next gate takes it, in order, and never lies there whole") {
  for (const int threads : {1, 2, 8})
    for (const bool joined : {false, true}) {
      CAPTURE(threads);
      Listed b(5000);
      std::vector<std::uint64_t> got;
      const auto slow = [](Firing& f) {
        if (f.in().value % 64 == 0) nap(50);
        f.emit_ptr(f.ptr());
      };
      int last = b.add("l", plain("l"), slow, {{b.list, 0}});
      if (joined) {
        const int r = b.add("r", buffer_spec(), slow, {{b.list, 0}}, {{"n", 8}});
        last =
            b.add("j", Spec("j", "").in("a").in("b").out("sample"), forward, {{last, 0}, {r, 0}});
      }
      const int batch =
          b.add("batch", batch_spec(), join_members, {{last, 0}}, {{"size", 7}, {"n", 1}});
      b.add("k", sink("k"),
            [&](Firing& f) { got.insert(got.end(), f.in().members.begin(), f.in().members.end()); },
            {{batch, 0}});
      const Outcome o = run(b, threads, nullptr, options());
      CHECK(o.status == Outcome::Status::done);
      REQUIRE(got.size() == 15000);
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == i / 5000 * 100000 + i % 5000);
      // Two pieces of each source sample in flight (2 credits), what is batched, and what the
      // buffer holds.
      CHECK(b.meter.most <= 3 * 2 * ahead + 2 * 7 + 8);
      CHECK(b.meter.live == 0);
    }
}

TEST_CASE("a list of an item that is made whole counts as one firing, an empty one as filtered") {
  Listed b(9), none(0);
  std::uint64_t sum = 0;
  for (Listed* one : {&b, &none}) {
    one->add("k", sink("k"), [&](Firing& f) { sum += f.in().value; }, {{one->list, 0}});
    CHECK(run(*one, 2, nullptr, options()).status == Outcome::Status::done);
  }
  CHECK(sum == 9 * 300000 + 3 * 36);
}

TEST_CASE("a sample of a list that cannot be made ends the list, and the run goes on") {
  Builder b;
  const int s = b.source("s", 4);
  const int list = b.add("list", expand_spec(),
                         [](Firing& f) {
                           f.emit_each(20, [v = f.in().value](std::size_t i) {
                             if (v == 2 && i == 11) throw DataError("cannot be made");
                             return std::make_shared<const Sample>(v * 100 + i);
                           });
                         },
                         {{s, 0}}, {{"n", 1}});
  b.graph.nodes[static_cast<std::size_t>(list)].on_error = OnError::quarantine;
  b.graph.run.max_bad = 10;
  std::vector<std::uint64_t> got;
  b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().value); }, {{list, 0}});
  Keeps events;
  CHECK(run(b, 2, &events, options()).status == Outcome::Status::done);
  REQUIRE(events.bad.size() == 1);
  CHECK(events.bad.front().message == "cannot be made");
  CHECK(events.bad.front().item == "2");
  // What came before in the same piece is not sent: 8 of the third list.
  CHECK(got.size() == 3 * 20 + 8);
  CHECK(Sample::live == 0);
}

TEST_CASE("a cut ends a list: what was not taken is discarded and counted") {
  for (const int threads : {1, 2, 8}) {
    Listed b(1'000'000);
    std::atomic<int> taken{0};
    Watched watched;
    const int buffer = b.add("buffer", buffer_spec(), forward, {{b.list, 0}}, {{"n", 2}});
    b.add("k", sink("k"),
          [&](Firing&) {
            if (++taken == 50) watched.scheduler->stop();
          },
          {{buffer, 0}});
    CHECK(watched.run(b, threads).status == Outcome::Status::cut);
    CHECK(taken < 1000);
    const Ledger& list = watched.scheduler->ledger(b.list);
    std::uint64_t skipped = 0;
    for (const auto& [reason, n] : list.skipped) skipped += n;
    CHECK(list.in == list.fired + skipped);
    CHECK(list.skipped.count("discarded") == 1);
    for (int i = 0; i < 4; ++i) CHECK(watched.scheduler->credits_out(i) == 0);
    CHECK(b.meter.live == 0);
  }
}

TEST_CASE("lists of lists are made as the next gate takes them") {
  for (const int threads : {1, 8}) {
    Listed b(300);
    const int inner = b.add("inner", expand_spec(),
                            [&](Firing& f) {
                              f.emit_each(50, [&, from = f.in().value * 50](std::size_t i) {
                                return metered(from + i, b.meter);
                              });
                            },
                            {{b.list, 0}}, {{"n", 1}});
    const int batch =
        b.add("batch", batch_spec(), join_members, {{inner, 0}}, {{"size", 7}, {"n", 1}});
    std::uint64_t n = 0;
    b.add("k", sink("k"),
          [&](Firing& f) {
            for (const std::uint64_t v : f.in().members) {
              CHECK(v == (n / 15000 * 100000 + n % 15000 / 50) * 50 + n % 50);
              ++n;
            }
          },
          {{batch, 0}});
    CHECK(run(b, threads, nullptr, options()).status == Outcome::Status::done);
    CHECK(n == 45000);
    // Of each of three source samples two pieces of the outer list, each of these with two of its
    // own; and what is batched.
    CHECK(b.meter.most <= 3 * 2 * ahead * (1 + 2 * ahead) + 2 * 7);
  }
}

TEST_CASE("a cut lets a list that the last gate itself leaves go on, as it is taken") {
  for (const int threads : {1, 2, 8}) {
    Builder b;
    Meter meter;
    std::atomic<int> taken{0};
    Watched watched;
    const int s = b.source("s", 3);
    const int list = b.add(
        "list", expand_spec().gate("n"),
        [&](Firing& f) { f.emit_each(600, [&meter](std::size_t i) { return metered(i, meter); }); },
        {{s, 0}}, {{"n", 1}});
    b.add("k", sink("k"),
          [&](Firing&) {
            nap(20);
            if (++taken == 50) watched.scheduler->stop();
          },
          {{list, 0}});
    CHECK(watched.run(b, threads).status == Outcome::Status::cut);
    CHECK(taken == 600);
    CHECK(meter.most <= 2 * ahead);
    CHECK(meter.live == 0);
  }
}

TEST_CASE("a list may leave samples out, whole pieces of them too") {
  for (const bool all : {false, true}) {
    Builder b;
    std::vector<std::uint64_t> got;
    const int s = b.source("s", 3);
    const int list = b.add(
        "list", expand_spec(),
        [all](Firing& f) {
          f.emit_each(20, [all, v = f.in().value * 100](std::size_t i) {
            return all || (i >= 4 && i < 16) ? nullptr : std::make_shared<const Sample>(v + i);
          });
        },
        {{s, 0}}, {{"n", 1}});
    b.add("k", sink("k"), [&](Firing& f) { got.push_back(f.in().value); }, {{list, 0}});
    Watched watched;
    CHECK(watched.run(b, 2).status == Outcome::Status::done);
    REQUIRE(got.size() == (all ? 0 : 3 * 8));
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == i / 8 * 100 + (i % 8 < 4 ? i % 8 : i % 8 + 12));
    CHECK(watched.scheduler->ledger(list).fired == (all ? 0 : 3));
    CHECK(watched.scheduler->ledger(list).skipped.size() == (all ? 1 : 0));
  }
}

TEST_CASE("an ordered node makes one list after the other, however many packets are in flight") {
  for (const int threads : {1, 2, 8}) {
    Listed b(500, 60, expand_spec().ordered());
    const auto slow = [](Firing& f) {
      if (f.in().value % 16 == 0) nap(20);
      f.emit_ptr(f.ptr());
    };
    const int read = b.add("read", plain("read"), slow, {{b.list, 0}});
    const int batch =
        b.add("batch", batch_spec(), join_members, {{read, 0}}, {{"size", 32}, {"n", 1}});
    std::uint64_t n = 0;
    b.add("k", sink("k"),
          [&](Firing& f) {
            for (const std::uint64_t v : f.in().members) {
              CHECK(v == n / 500 * 100000 + n % 500);
              ++n;
            }
          },
          {{batch, 0}});
    CHECK(run(b, threads, nullptr, options()).status == Outcome::Status::done);
    CHECK(n == 30000);
    // The last pieces of one list, those of the next, and what is batched.
    CHECK(b.meter.most <= 2 * 2 * ahead + 2 * 32);
  }
}
