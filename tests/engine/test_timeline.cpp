#include <doctest/doctest.h>

#include "engine/judge/reading_log.h"
#include "engine/judge/timeline.h"
#include "tests/engine/toy.h"

using namespace sluice;

namespace {

struct Recorder {
  toy::Builder b;
  std::vector<Reading> now;
  double cpu_s = 0;

  Recorder() {
    const int s = b.source("s", 1);
    b.add("k", toy::sink("k"), [](Firing&) {}, {{s, 0}});
    REQUIRE(b.plan());
    now.resize(2);
  }
  // A tenth of a second in which the sink was busy for `busy` of it and `queue` packets waited.
  void pass(Timeline& t, double busy, std::uint64_t queue, double cores = 1, double bytes = 5e6) {
    for (Reading& r : now) r.at_ns += 100'000'000;
    now[1].busy_ns += static_cast<std::int64_t>(busy * 1e8);
    now[1].queue = queue;
    now[0].credits_out = 1;
    cpu_s += cores * 0.1;
    t.add(now, cpu_s, bytes);
  }
};

double mean(const Json& column) {
  double sum = 0;
  for (const Json& v : column) sum += v.get<double>();
  return sum / static_cast<double>(column.size());
}

}  // namespace

TEST_CASE("a timeline keeps what was measured between two samples") {
  Recorder r;
  Timeline t(*r.b.made, Threads{2, 2, 2}, 0.1);
  r.pass(t, 0, 0);  // where the first stretch begins
  r.pass(t, 0.25, 3, 1.5, 7e6);
  r.pass(t, 1, 0, 0.5, 8e6);
  const Json j = t.to_json();
  CHECK(j.at("interval_s") == 0.1);
  CHECK(j.at("cpu") == Json({1.5, 0.5}));
  CHECK(j.at("rss_mb") == Json({7.0, 8.0}));
  CHECK(j.at("nodes").at("k").at("busy") == Json({0.25, 1.0}));
  CHECK(j.at("nodes").at("k").at("queue") == Json({3.0, 0.0}));
  CHECK(j.at("nodes").at("s").at("credits") == Json({1.0, 1.0}));
  CHECK(j.at("nodes").at("s").at("total") == r.b.made->nodes[0].credits);
}

TEST_CASE("points stand as far apart as they were taken, however late that was") {
  Recorder r;
  Timeline t(*r.b.made, Threads{2, 2, 2}, 0.1);
  r.pass(t, 0, 0);
  for (int i = 0; i < 4; ++i) {
    for (Reading& reading : r.now) reading.at_ns += 150'000'000;  // called 0.15 s late
    r.pass(t, 0.5, 1);
  }
  CHECK(t.points() == 4);
  CHECK(t.to_json().at("interval_s") == 0.25);
}

TEST_CASE("a long timeline stays bounded, keeps its length and its means") {
  for (const std::size_t most : {5, 8, 64}) {
    Recorder r;
    Timeline t(*r.b.made, Threads{2, 2, 2}, 0.1, most);
    r.pass(t, 0, 0);
    double busy = 0, queue = 0;
    const int samples = 1024;
    for (int i = 0; i < samples; ++i) {
      const double b = (i % 7) / 8.0;
      r.pass(t, b, static_cast<std::uint64_t>(i % 5));
      busy += b / samples;
      queue += (i % 5) / static_cast<double>(samples);
      CHECK(t.points() < most);
    }
    const Json j = t.to_json();
    CHECK(t.points() * 4 >= most);
    // What does not fill a point yet is missing at the end: less than one point.
    const double interval = j.at("interval_s"), length = interval * static_cast<double>(t.points());
    CHECK(length <= samples * 0.1 + 1e-9);
    CHECK(length > samples * 0.1 - interval);
    CHECK(mean(j.at("nodes").at("k").at("busy")) == doctest::Approx(busy).epsilon(0.06));
    CHECK(mean(j.at("nodes").at("k").at("queue")) == doctest::Approx(queue).epsilon(0.06));
  }
}

TEST_CASE("a log of readings knows a run's middle and end, however long it was") {
  for (const std::int64_t n : {2, 3, 7, 8, 9, 1000, 100'000}) {
    CAPTURE(n);
    ReadingLog log(8);
    std::vector<Reading> now(1);
    for (std::int64_t i = 0; i < n; ++i) {
      now[0].at_ns = i;
      log.add(now);
      REQUIRE(log.kept() < 8);
    }
    CHECK(log.count() == static_cast<std::size_t>(n));
    CHECK(log.last()[0].at_ns == n - 1);
    const std::int64_t middle = log.middle()[0].at_ns;
    CHECK(middle <= n / 2);
    CHECK(middle >= n / 4);
  }
}
