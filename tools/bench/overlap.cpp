// Whether buffering overlaps: a producer of 10 ms and a consumer of 10 ms, both asleep. With a
// buffer between them at least 95 items a second; in one segment of one credit about 50.
#include <cstdio>
#include <cstdlib>

#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

static double items_per_second(bool buffered, std::uint64_t items) {
  Builder b;
  const int source = b.add("source", Spec("source", "").out("sample").source(), [&](Firing& f) {
    if (f.stamp().index == items) return f.end_epoch();
    f.emit_item(f.stamp().index, Sample(f.stamp().index));
  });
  int last = b.add("make", plain("make").limit(1),
                   [](Firing& f) {
                     nap(10000);
                     f.emit_ptr(f.ptr());
                   },
                   {{source, 0}});
  if (buffered) last = b.add("ahead", buffer_spec(), forward, {{last, 0}}, {{"n", 2}});
  b.add("use", sink("use"), [](Firing&) { nap(10000); }, {{last, 0}});
  if (!b.plan(2)) std::abort();
  b.made->nodes[static_cast<std::size_t>(source)].credits = 1;
  RunEvents silent;
  RunOptions o;
  o.background = false;
  Scheduler s(*b.made, b.pointers(), o, silent);
  if (s.run().status != Outcome::Status::done) std::abort();
  return static_cast<double>(items) / s.wall_s();
}

int main() {
  const double with = items_per_second(true, 200), without = items_per_second(false, 200);
  std::printf("items/s: with a buffer %.1f, in one segment of one credit %.1f\n", with, without);
  return with >= 95 && without < 55 ? 0 : 1;
}
