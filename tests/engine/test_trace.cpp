#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "engine/trace/trace.h"
#include "tests/engine/toy.h"

using namespace sluice;

TEST_CASE("a quantile is no more than an eighth above the duration that it stands for") {
  for (const std::int64_t ns : {1, 7, 8, 9, 1000, 123'456'789}) {
    Histogram all;
    all.add(ns);
    CHECK(all.quantile(0.5) >= ns);
    CHECK(all.quantile(0.5) <= ns + ns / 8 + 1);
  }
}

TEST_CASE("a quantile is the upper edge of the bucket that holds its rank") {
  Histogram all;
  CHECK(all.quantile(0.5) == 0);
  CHECK(all.add(3) == 1);
  CHECK(all.add(3) == 2);
  CHECK(all.add(-1) == 1);  // a clock that went back
  CHECK(all.add(7) == 1);
  CHECK(all.quantile(0) == 0);
  CHECK(all.quantile(0.34) == 3);
  CHECK(all.quantile(0.67) == 3);
  CHECK(all.quantile(1) == 7);
  // From 8 on a bucket is an eighth of its power of two wide.
  const std::pair<std::int64_t, std::int64_t> edges[] = {
      {8, 9}, {15, 16}, {16, 18}, {17, 18}, {18, 20}, {31, 32}, {1000, 1024}, {1024, 1152}};
  for (const auto& [ns, edge] : edges) {
    CAPTURE(ns);
    Histogram one;
    CHECK(one.add(ns) == 1);
    CHECK(one.quantile(0) == edge);
    CHECK(one.quantile(1) == edge);
  }
  Histogram longest;  // what is longer than all buckets is in the last one
  CHECK(longest.add(std::int64_t{1} << 60) == 1);
  CHECK(longest.add(std::int64_t{1} << 61) == 2);
  CHECK(longest.quantile(0.5) == std::int64_t{1} << 52);
}

TEST_CASE("what firings emitted is counted, and the most of one") {
  Counters c;
  for (const std::uint64_t size : {5, 9, 2}) c.emitted(size);
  CHECK(c.bytes == 16);
  CHECK(c.bytes_of == 3);
  CHECK(c.most_bytes == 9);
}

TEST_CASE("a firing as short as the shortest of ten is not kept, a longer one takes its place") {
  Slowest slowest;
  for (std::int64_t ns = 1; ns <= 9; ++ns) slowest.add({10 * ns, Stamp{}, "", ""});
  CHECK(slowest.admits(0));  // there is room
  slowest.add({5, Stamp{}, "", ""});
  CHECK_FALSE(slowest.admits(5));
  CHECK(slowest.admits(6));
  slowest.add({5, Stamp{}, "late", ""});
  CHECK(slowest.sorted().back().sample.empty());
  slowest.add({6, Stamp{}, "longer", ""});
  REQUIRE(slowest.sorted().size() == Slowest::keep);
  CHECK(slowest.sorted().front().ns == 90);
  CHECK(slowest.sorted().back().sample == "longer");
  CHECK_FALSE(slowest.admits(6));
}

TEST_CASE("the slowest firings kept are the ten longest, whichever threads bring them") {
  Slowest slowest;
  constexpr std::int64_t each = 2000;
  const auto bring = [&](std::int64_t thread) {
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t ns =
          static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(i))) & 0xffff;
      const std::int64_t distinct = ns * 4 + thread;
      if (slowest.admits(distinct)) slowest.add({distinct, Stamp{}, "v", "f"});
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) threads.emplace_back(bring, t);
  for (auto& t : threads) t.join();
  std::vector<std::int64_t> expect;
  for (std::int64_t t = 0; t < 4; ++t)
    for (std::int64_t i = 0; i < each; ++i)
      expect.push_back(
          (static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(i))) & 0xffff) * 4 + t);
  std::sort(expect.rbegin(), expect.rend());
  std::vector<std::int64_t> found;
  for (const auto& s : slowest.sorted()) found.push_back(s.ns);
  CHECK(found == std::vector(expect.begin(), expect.begin() + Slowest::keep));
  CHECK_FALSE(slowest.admits(found.back()));
}

TEST_CASE("a slow sample is known by its name and file, at a source by what it sent") {
  toy::Builder b;
  const int s = b.source("s", 30);
  const int x = b.add("x", toy::plain("x"),
                      [](Firing& f) {
                        if (f.in().value == 17) toy::nap(20000);
                        f.emit_ptr(f.ptr());
                      },
                      {{s, 0}});
  b.add("k", toy::sink("k"), [](Firing&) {}, {{x, 0}});
  REQUIRE(b.plan());
  RunEvents events;
  Scheduler scheduler(*b.made, b.pointers(), {}, events);
  REQUIRE(scheduler.run().status == Outcome::Status::done);
  const auto slow = scheduler.counters(x).slowest.sorted();
  REQUIRE(slow.size() == Slowest::keep);
  const auto at =
      std::find_if(slow.begin(), slow.end(), [](const auto& f) { return f.sample == "v17"; });
  REQUIRE(at != slow.end());
  CHECK(at->file == "v17.nii");
  CHECK(at->stamp.index == 17);
  for (const auto& f : scheduler.counters(s).slowest.sorted())
    if (f.stamp.index < 30) CHECK(f.sample == "v" + std::to_string(f.stamp.index));
}
