// What watching a run costs. Nanoseconds of processor time: of a body's counters (always on), of an
// event (recorded, drained, encoded and written), on the thread that works and on the one that
// writes. Given a run's folder, their share of that run: bodies a second times nanoseconds.
//
//   bench_tracing [RUN]
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "engine/trace/trace_file.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

double cpu_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double median_of_5(double (*once)()) {
  std::array<double, 5> all;
  for (double& ns : all) ns = once();
  std::sort(all.begin(), all.end());
  return all[2];
}

// What Station::body and note_body do around a body that is neither long nor slow.
double counters_ns() {
  constexpr int bodies = 1'000'000;
  Counters counters;
  counters.slowest.add({1'000'000'000, {}, "", ""});
  for (std::size_t i = 1; i < Slowest::keep; ++i) counters.slowest.add({1'000'000'000, {}, "", ""});
  const double start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  std::int64_t then = now_ns();
  for (int i = 0; i < bodies; ++i) {
    counters.enter(then);
    const std::int64_t end = now_ns();
    counters.leave(end);
    const std::int64_t ns = end - then;
    if (counters.durations.add(ns) % 64 == 1) counters.emitted(static_cast<std::uint64_t>(ns));
    if (counters.slowest.admits(ns)) counters.slowest.add({ns, {}, "", ""});
    then = end;
  }
  return (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) / bodies;
}

double event_ns() {
  constexpr int events = 1'000'000;
  EventRings rings(events + 1);
  rings.start();
  Event e;
  const auto record = [&] {
    const double start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < events; ++i) {
      e.start = i;
      e.end = i + 1;
      e.index = static_cast<std::uint64_t>(i);
      rings.record(e);
    }
    return (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) / events;
  };
  record();  // the ring's pages are there
  struct Nothing final : EventRings::Sink {
    void thread(std::size_t, const std::string&, int) override {}
    void event(std::size_t, const Event&) override {}
    void named(const EventRings::Named&) override {}
  } nothing;
  rings.drain(nothing);
  return record();
}

// Drained, encoded and written, on the writer's thread.
double written_ns() {
  constexpr int events = 200'000;
  Builder b;
  const int source = b.source("source", 1);
  b.add("node", plain("n"), forward, {{source, 0}});
  if (!b.plan(1)) std::abort();
  const auto file = std::filesystem::temp_directory_path() / "sluice-bench-tracing.pftrace";
  EventRings rings(events + 1);
  rings.start();
  for (int i = 0; i < events; ++i) {
    Event e;
    e.start = 1000 * i;
    e.end = e.start + 900;
    e.index = static_cast<std::uint64_t>(i);
    e.node = 1;
    rings.record(e);
  }
  const double start = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  {
    TraceFile trace(file, *b.made, rings, [] { return std::vector<Reading>(2); });
  }
  const double ns = (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / events;
  std::filesystem::remove(file);
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  const double counters = median_of_5(counters_ns), event = median_of_5(event_ns),
               written = median_of_5(written_ns);
  std::printf("{\"counters_ns\": %.1f, \"event_ns\": %.1f, \"event_written_ns\": %.1f", counters,
              event, written);
  if (argc > 1) {
    const Json profile = Json::parse(std::ifstream(std::string(argv[1]) + "/profile.json"));
    double bodies = 0;
    for (const auto& [name, node] : profile["nodes"].items()) bodies += node["items"].get<double>();
    const double wall_ns = 1e9 * profile["wall_s"].get<double>();
    std::printf(
        ", \"bodies\": %.0f, \"wall_s\": %.2f, \"counters_share\": %.2e, \"tracing_share\": %.2e",
        bodies, wall_ns * 1e-9, bodies * counters / wall_ns, bodies * (event + written) / wall_ns);
  }
  std::printf("}\n");
}
