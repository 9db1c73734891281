// Whether buffering overlaps: a producer and a consumer, both asleep, 10 ms each where nothing else
// is said. With a buffer between them they take the longer of both times an item, in one segment of
// one credit the sum.
//
// Epochs follow each other without a break: the buffer is filled once, not once an epoch.
//
//   bench_overlap [producer_ms consumer_ms items epochs]
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

static double producer_ms = 10, consumer_ms = 10;

static double ms_an_item(bool buffered, std::uint64_t items, std::int64_t epochs) {
  Builder b;
  b.graph.run.epochs = epochs;
  const int source = b.add("source", Spec("source", "").out("sample").source(), [&](Firing& f) {
    if (f.stamp().index == items) return f.end_epoch();
    f.emit_item(f.stamp().index, Sample(f.stamp().index));
  });
  int last = b.add("make", plain("make").limit(1),
                   [](Firing& f) {
                     nap(static_cast<std::uint64_t>(1000 * producer_ms));
                     f.emit_ptr(f.ptr());
                   },
                   {{source, 0}});
  if (buffered) last = b.add("ahead", buffer_spec(), forward, {{last, 0}}, {{"n", 2}});
  b.add("use", sink("use"), [](Firing&) { nap(static_cast<std::uint64_t>(1000 * consumer_ms)); },
        {{last, 0}});
  if (!b.plan(2)) std::abort();
  b.made->nodes[static_cast<std::size_t>(source)].credits = 1;
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler s(*b.made, b.pointers(), o, silent);
  if (s.run().status != Outcome::Status::done) std::abort();
  return 1e3 * s.wall_s() / static_cast<double>(items * static_cast<std::uint64_t>(epochs));
}

int main(int argc, char** argv) {
  if (argc > 2) {
    producer_ms = std::atof(argv[1]);
    consumer_ms = std::atof(argv[2]);
  }
  const std::uint64_t items = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 200;
  const std::int64_t epochs = argc > 4 ? std::strtoll(argv[4], nullptr, 10) : 1;
  const double with = ms_an_item(true, items, epochs), without = ms_an_item(false, items, 1);
  const double ideal = std::max(producer_ms, consumer_ms);
  std::printf(
      "{\"items\": %llu, \"ideal_ms\": %.3f, \"buffered_ms\": %.3f, \"of_ideal\": %.4f, "
      "\"unbuffered_ms\": %.3f}\n",
      static_cast<unsigned long long>(items), ideal, with, with / ideal, without);
}
