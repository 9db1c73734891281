#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

TEST_CASE("a reading counts a body that has not ended, what waits and the credits that are out") {
  Builder b;
  std::promise<void> entered, go;
  std::shared_future<void> gate = go.get_future().share();
  std::atomic<bool> first{true};
  int s = b.source("s", 9);
  int x = b.add("x", plain("x").limit(1),
                [&](Firing& f) {
                  if (first.exchange(false)) entered.set_value();
                  gate.wait();
                  f.emit(Sample(f.in().value));
                },
                {{s, 0}});
  int k = b.add("k", sink("k"), [](Firing&) {}, {{x, 0}});
  REQUIRE(b.plan());
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler scheduler(*b.made, b.pointers(), o, silent);
  Outcome out;
  std::thread running([&] { out = scheduler.run(); });
  entered.get_future().wait();
  const int credits = b.made->nodes[static_cast<std::size_t>(s)].credits;
  std::vector<Reading> r = scheduler.readings();
  while (r[0].credits_out < credits || r[1].queue + 1 < static_cast<std::uint64_t>(credits)) {
    std::this_thread::yield();
    r = scheduler.readings();
  }
  CHECK(r[static_cast<std::size_t>(x)].fired == 0);
  CHECK(r[static_cast<std::size_t>(x)].busy_ns > 0);
  const std::int64_t busy = r[static_cast<std::size_t>(x)].busy_ns;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  r = scheduler.readings();
  CHECK(r[static_cast<std::size_t>(x)].busy_ns >= busy + 1'000'000);
  CHECK(r[static_cast<std::size_t>(x)].queue == static_cast<std::uint64_t>(credits - 1));
  CHECK(r[static_cast<std::size_t>(k)].starved_ns > 0);  // though its wait has not ended
  go.set_value();
  running.join();
  CHECK(out.status == Outcome::Status::done);
  r = scheduler.readings();
  CHECK(r[static_cast<std::size_t>(x)].fired == 9);
  CHECK(r[static_cast<std::size_t>(x)].epoch_size == 9);
  CHECK(r[static_cast<std::size_t>(k)].epoch == 1);
  CHECK(r[static_cast<std::size_t>(s)].credits_out == 0);
  CHECK(r == scheduler.readings());  // they stand still now
}

TEST_CASE("after a failure the readings are those of the moment") {
  Builder b;
  int s = b.source("s", 50);
  int batch = b.add("batch", batch_spec(), join_members, {{s, 0}}, {{"size", 8}, {"n", 2}});
  b.add("k", sink("k"),
        [](Firing& f) {
          if (f.stamp().index == 1) throw DataError("planted");
        },
        {{batch, 0}});
  REQUIRE(b.plan());
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler scheduler(*b.made, b.pointers(), o, silent);
  CHECK(scheduler.run().status == Outcome::Status::failed);
  const auto r = scheduler.readings();
  CHECK(r[static_cast<std::size_t>(batch)].most_credits_out > 0);
  CHECK(r[static_cast<std::size_t>(s)].fired >= 16);
  CHECK(scheduler.credits_out(s) == 0);  // in truth all of them came home since
}

TEST_CASE("the turn that is on is told, and none when all are over") {
  Builder b;
  b.graph.run.epochs = 2;
  Scheduler* running = nullptr;
  std::vector<std::uint32_t> seen;
  int t = b.source("t", 3);
  int fwd = b.add("fwd", reader_spec(), forward, {{t, 0}}, {{"net", "net"}});
  b.add("step", updater_spec(),
        [&](Firing& f) {
          const auto turn = running->turn();
          REQUIRE(turn);
          CHECK(turn->stream == static_cast<int>(f.stamp().stream));
          seen.push_back(turn->epoch);
        },
        {{fwd, 0}}, {{"net", "net"}});
  REQUIRE(b.plan());
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler scheduler(*b.made, b.pointers(), o, silent);
  running = &scheduler;
  CHECK(scheduler.run().status == Outcome::Status::done);
  CHECK(seen == std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1});
  CHECK(!scheduler.turn());
}
